"""The documentation as a site: it builds strictly in both languages, needs nobody else, and has the same pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from doc_blocks import ROOT

from outplace.knowledge.kinds import KINDS


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    for configuration, where in (("mkdocs.yml", folder), ("mkdocs.ja.yml", folder / "ja")):
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", configuration, "-d", str(where)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Links(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.languages: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("href"):
            self.loads.append(given["href"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
            if given.get("hreflang"):
                self.languages[given["hreflang"]] = given["href"]


def pages(folder: Path) -> list[Path]:
    return [page for page in sorted(folder.rglob("*.html")) if page.name != "404.html"]


def test_nothing_is_loaded_from_elsewhere(site):
    for page in pages(site):
        for address in _Links(page.read_text("utf-8")).loads:
            assert not re.match(r"(https?:)?//", address), f"{page}: {address}"
            assert (page.parent / address.split("?")[0]).exists(), f"{page}: {address}"


def test_links_lead_to_pages(site):
    for page in pages(site):
        for address in _Links(page.read_text("utf-8")).links:
            target = address.partition("#")[0]
            if target and not re.match(r"\w+:", target):
                assert (page.parent / target).exists(), f"{page}: {address}"


def test_each_kind_has_its_page(site):
    for folder in (site / "kinds", site / "ja" / "kinds"):
        overview = (folder / "index.html").read_text("utf-8")
        for kind in KINDS:
            assert (folder / f"{kind.code}.html").is_file()
            assert f'href="{kind.code}.html"' in overview
    text = (site / "kinds" / "OUT201.html").read_text("utf-8")
    assert re.search(r'<a href="OUT301.html">OUT301</a>', text), "codes in the text are links"


def test_every_page_leads_to_itself_in_the_other_language(site):
    english = {page.relative_to(site) for page in pages(site) if page.relative_to(site).parts[0] != "ja"}
    japanese = {page.relative_to(site / "ja") for page in pages(site / "ja")}
    assert english == japanese
    for name in english:
        for page, other in ((site / name, "ja"), (site / "ja" / name, "en")):
            links = _Links(page.read_text("utf-8")).languages
            own = site / "ja" / name if other == "ja" else site / name
            assert (page.parent / links[other]).resolve() == own.resolve(), page


@pytest.mark.parametrize("language, word", [("", "Search needs a server"), ("ja", "検索にはサーバーが必要です")])
def test_search_from_disk_says_that_it_needs_a_server(site, language, word):
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no Chromium here")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto((site / language / "index.html").as_uri())
        box = page.locator(".md-search__input")
        page.wait_for_load_state("load")
        assert word in box.get_attribute("placeholder") and box.is_disabled() and box.is_visible()
        assert page.locator(".md-sidebar--primary").is_visible()
        assert page.get_by_text("pip install outplace").is_visible()
        browser.close()
