"""The HTML report in a real browser: it loads by itself, its parts point at each other, and it can be read by all."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from html_samples import DIFF, refused, saved, silent
from test_html import EVIL, data, evil

from outplace.model import Site
from outplace.report import html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no Chromium here (apt-get install chromium): the report is not tried", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """A page that was opened from a file, and all it has said and asked for."""

    def __init__(self, browser, file: Path, text: str, **options) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        file.write_text(text, encoding="utf-8")
        self.page.goto(file.as_uri())


@pytest.fixture
def open_page(browser, tmp_path):
    tabs: list[Tab] = []

    def opened(text: str, **options) -> Tab:
        tabs.append(Tab(browser, tmp_path / "report.html", text, **options))
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.context.close()


def a_report() -> str:
    return html.page(data(saved(), refused(), silent()))


def test_it_loads_without_a_word_and_without_the_network(open_page):
    tab = open_page(a_report())
    assert tab.said == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:"))] == []
    assert len(tab.asked) <= 2  # the file itself, and the empty icon


def test_hostile_text_stays_text(open_page):
    tab = open_page(html.page(evil()))
    assert tab.said == []
    assert tab.page.locator("img").count() == 0
    assert EVIL in tab.page.locator(".lines").first.inner_text()


def test_a_fragment_works_in_a_document_of_others(open_page):
    tab = open_page(f"<!doctype html><body>{html.fragment([saved()])}{html.fragment([saved()])}</body>")
    assert tab.said == []
    tab.page.locator(".row.saved a").nth(1).click()
    chosen = tab.page.locator(".line.chosen")
    assert chosen.count() == 1
    assert tab.page.locator(".outplace-fragment").nth(1).locator(".line.chosen").count() == 1


# -- one thing leads to another ---------------------------------------------------------------------------------------


def test_a_click_on_a_node_shows_its_source(open_page):
    page = open_page(html.page(data(saved())), viewport={"width": 1000, "height": 300}).page
    page.locator(".row.overwritten a").click()
    line = page.locator(".line.chosen")
    assert line.inner_text().split() == ["6", "h", "+=", "1"]
    page.wait_for_function("document.querySelector('.line.chosen').getBoundingClientRect().bottom <= innerHeight")


def test_a_click_on_a_node_elsewhere_unfolds_its_source(open_page):
    diagnosis = saved()
    root, *others = diagnosis.graph.nodes
    root = replace(root, site=Site("train.py", 90, 90, 7, 18, "other", "far_away(h)"))
    shown = data(replace(diagnosis, graph=replace(diagnosis.graph, nodes=(root, *others))))
    shown["sources"]["train.py"]["90"] = "loss = far_away(h)"
    page = open_page(html.page(shown)).page
    source = page.locator(".others .line", has_text="far_away")
    assert not source.is_visible()
    page.locator(".row a", has_text="mean").last.click()
    assert source.is_visible()
    assert "chosen" in source.get_attribute("class")


def test_source_points_back_at_the_graph(open_page):
    page = open_page(html.page(data(saved()))).page
    page.locator(".line", has_text="torch.exp").hover()
    assert "near" in page.locator(".row.saved a").get_attribute("class")


@pytest.mark.parametrize("button, copied", [("Copy patch", DIFF), ("Copy new lines", "    h = h + 1\n")])
def test_the_buttons_copy(open_page, button, copied):
    page = open_page(html.page(data(saved())), permissions=["clipboard-read", "clipboard-write"]).page
    page.get_by_role("button", name=button).click()
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == copied


def test_the_buttons_copy_where_the_clipboard_is_closed(open_page):
    tab = open_page(html.page(data(saved())), permissions=["clipboard-read"])
    tab.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error('closed')))")
    tab.page.get_by_role("button", name="Copy patch").click()
    tab.page.get_by_text("Copied", exact=True).wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == DIFF


# -- for all readers --------------------------------------------------------------------------------------------------


def test_everything_can_be_reached_and_used_by_keyboard(open_page):
    page = open_page(html.page(data(saved()))).page
    focused = "(e => e.className + ' ' + e.textContent.trim().split('\\n')[0])(document.activeElement)"
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        seen.append(page.evaluate(focused))
    for wanted in ("Skip to", "Theme", "exp", "+=", "backward", "lines", "Copy new lines", "Copy patch", "own words"):
        assert any(wanted in one for one in seen), f"{wanted} is not reached: {seen}"
    page.locator(".row.saved a").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('.row').className") == "row overwritten"
    assert "h += 1" in page.locator(".line.chosen").inner_text()


def test_a_screen_reader_hears_the_story_in_order(open_page):
    page = open_page(html.page(data(saved()))).page
    heard = page.locator(".story ol").aria_snapshot()
    places = [
        heard.index(text) for text in ("w waits", "exp keeps its result", "+= writes its memory", "backward needs v0")
    ]
    assert places == sorted(places)
    assert page.get_by_role("article").count() == 1
    assert page.get_by_role("heading", level=2).inner_text().startswith("h was overwritten")
    pictures = page.get_by_role("img")
    assert all(pictures.nth(n).get_attribute("aria-label") for n in range(pictures.count()))


CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => {
    const a = top[3] / 255;
    return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)).concat(255);
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    let colour = [255, 255, 255, 255];
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(e);
    for (const e of chain) colour = over(rgba(getComputedStyle(e).backgroundColor), colour);
    return colour;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || element.closest('svg, script, style, .skip, .spoken') || !element.checkVisibility()) continue;
    const below = behind(element), a = light(over(rgba(getComputedStyle(element).color), below)), b = light(below);
    found.push([Math.round((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) * 100) / 100, text.slice(0, 40)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_what_is_behind_it(open_page, scheme):
    page = open_page(a_report(), color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.locator(".row.saved a").first.click()
    page.locator(".line.overwritten").first.hover()
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 100
    assert [(ratio, text) for ratio, text in contrasts if ratio < 4.5] == []


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_the_theme_follows_the_system_until_it_is_chosen(open_page):
    tab = open_page(a_report(), color_scheme="dark")
    dark = tab.page.evaluate(BACKGROUND)
    button = tab.page.get_by_role("button", name="Theme")
    button.click()
    light = tab.page.evaluate(BACKGROUND)
    assert light != dark
    assert "light" in button.inner_text()
    tab.page.reload()
    assert tab.page.evaluate(BACKGROUND) == light
    button.click()
    assert tab.page.evaluate(BACKGROUND) == dark
    button.click()
    assert "auto" in button.inner_text()


@pytest.mark.parametrize("width", [320, 380, 768, 1280])
def test_nothing_is_wider_than_the_screen(open_page, width):
    text = html.page(data(saved("a.very.long.name" * 4), refused()))
    tab = open_page(text, viewport={"width": width, "height": 700})
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_is_readable_without_scripts(open_page):
    page = open_page(a_report(), java_script_enabled=False).page
    assert page.locator(".line", has_text="torch.exp").first.is_visible()
    assert not page.get_by_role("button", name="Copy patch").first.is_visible()


NOTEBOOK_STYLE = """<style>
.book pre { white-space: pre-wrap; background: #fee; padding: 9px; font-size: 30px; line-height: 3 }
.book table td, .book table tr { text-align: right; padding: 11px; background: #eef; max-width: 30px }
.book p, .book h2, .book ol, .book li { margin: 2em; color: #123456; font-size: 33px }
.book code { background: #eef; padding: 7px }
</style>"""

LOOKS = """[...document.querySelectorAll('.outplace-fragment *:not(style, script, svg *)')].map(one => {
  const look = getComputedStyle(one);
  return [one.tagName, one.className, look.fontSize, look.padding, look.margin, look.color, look.backgroundColor,
          look.whiteSpace, look.textAlign, look.lineHeight].join(' ');
})"""


def test_a_notebook_does_not_style_the_report(open_page):
    shown = html.fragment([saved()])
    alone = open_page(f"<!doctype html><body><div class='book'>{shown}</div></body>").page.evaluate(LOOKS)
    styled = open_page(f"<!doctype html><body>{NOTEBOOK_STYLE}<div class='book'>{shown}</div></body>").page
    assert styled.evaluate(LOOKS) == alone


CUE = """one => {
  const look = getComputedStyle(one);
  const still = look.backgroundAttachment.split(', ').slice(0, 4).join(' ');
  return [one.scrollWidth > one.clientWidth, still, look.scrollbarWidth];
}"""


def test_code_that_is_cut_has_a_cue(open_page):
    shown = data(saved())
    shown["sources"]["train.py"]["5"] += ", and so on" * 9
    page = open_page(html.page(shown), viewport={"width": 320, "height": 700}).page
    assert page.locator(".lines").first.evaluate(CUE) == [True, "local local scroll scroll", "thin"]


def test_a_click_on_the_code_opens_the_page_of_the_rule(open_page):
    page = open_page(html.page(data(saved()))).page
    text = page.get_by_text("Most derivatives need a value")
    assert not text.is_visible()
    page.locator("a.code").click()
    assert text.is_visible()


@pytest.mark.parametrize("make", [saved, refused, silent])
def test_no_half_of_a_wide_page_is_empty(open_page, make):
    page = open_page(html.page(data(make())), viewport={"width": 1280, "height": 800}).page
    columns = page.locator(".columns > .side")
    heights = [
        columns.nth(n).evaluate("one => [...one.children].reduce((sum, child) => sum + child.offsetHeight, 0)")
        for n in range(columns.count())
    ]
    assert min(heights) > 0.45 * max(heights)
    width = sum(columns.nth(n).bounding_box()["width"] for n in range(columns.count()))
    assert width > 0.95 * page.locator(".columns").bounding_box()["width"]
