"""The Japanese documentation keeps up with the English: the same pages, sections, code and links, in Japanese."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks

from outplace.knowledge.kinds import KINDS

DOCS, KIND_PAGES = ROOT / "docs", ROOT / "src" / "outplace" / "knowledge" / "pages"
PAIRS = [
    (ROOT / "README.md", ROOT / "README.ja.md"),
    *((page, DOCS / "ja" / page.name) for page in sorted(DOCS.glob("*.md"))),
    *((KIND_PAGES / f"{kind.code}.md", DOCS / "ja" / "kinds" / f"{kind.code}.md") for kind in KINDS),
]
EACH = pytest.mark.parametrize(
    ("english", "japanese"), PAIRS, ids=[pair[1].relative_to(ROOT).as_posix() for pair in PAIRS]
)
CODE = ("console", "python", "json", "yaml", "toml", "lua", "text")


def test_there_are_no_other_pages():
    expected = {japanese for _, japanese in PAIRS if japanese.name != "README.ja.md"}
    assert {*(DOCS / "ja").rglob("*.md")} == expected


@EACH
def test_code_is_the_same_but_for_comments(english: Path, japanese: Path):
    def code(page: Path) -> list[tuple[str, str]]:
        found = [block for block in blocks(page) if block.language in CODE]
        return [(block.language, bare(block.text, block.language)) for block in found]

    assert code(japanese) == code(english)


def bare(text: str, language: str) -> str:
    """The code without its comments and the lines that are nothing else."""
    if language in ("json", "text"):
        return text
    lines = [re.sub(r"(^|\s+)#\s(?!noqa).*$", "", line) for line in text.split("\n")]
    return "\n".join(line.rstrip() for line in lines if line.strip())


@EACH
def test_sections_are_the_same_in_number_and_depth(english: Path, japanese: Path):
    def depths(page: Path) -> list[int]:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        return [len(head) for head in re.findall(r"^(#+) ", text, re.MULTILINE)]

    assert depths(japanese) == depths(english)


@EACH
def test_tables_have_as_many_rows(english: Path, japanese: Path):
    def rows(page: Path) -> int:
        return len(re.findall(r"^\|", page.read_text("utf-8"), re.MULTILINE))

    assert rows(japanese) == rows(english)


@EACH
def test_it_is_japanese(english: Path, japanese: Path):
    """Prose, headings and table cells: letters of Japanese in nearly all of what is not code."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", japanese.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    paragraphs = [part for part in re.split(r"\n\n+", text) if len(re.sub(r"`[^`]*`|[^A-Za-z]", "", part)) > 40]
    foreign = [part for part in paragraphs if not re.search(r"[ぁ-んァ-ヶ一-龠]", part)]
    assert foreign == []


@EACH
def test_numbers_and_codes_are_the_same(english: Path, japanese: Path):
    """Figures that were measured, and the rules that are spoken of."""

    def facts(page: Path) -> tuple[set[str], set[str]]:
        text = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
        codes = re.findall(r"(?<![A-Z])OUT\d{3}(?!\d)", text)
        return set(codes), set(re.findall(r"(?<![A-Za-z0-9_.])\d+\.\d+(?![A-Za-z0-9_]|\.\d)", text))

    assert facts(japanese) == facts(english)
