"""Lists what is out of date in the Japanese documentation. `--release` fails if anything is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from outplace.knowledge.kinds import KINDS

ROOT = Path(__file__).resolve().parents[1]
DOCS, KIND_PAGES = ROOT / "docs", ROOT / "src" / "outplace" / "knowledge" / "pages"
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
CODE = ("console", "python", "json", "yaml", "toml", "lua", "text")


def pairs() -> list[tuple[Path, Path]]:
    """Every English page and its translation."""
    return [
        (ROOT / "README.md", ROOT / "README.ja.md"),
        *((page, DOCS / "ja" / page.name) for page in sorted(DOCS.glob("*.md"))),
        *((KIND_PAGES / f"{kind.code}.md", DOCS / "ja" / "kinds" / f"{kind.code}.md") for kind in KINDS),
    ]


def out_of_date(english: str, japanese: str) -> Iterator[str]:
    """What the translation of a page lacks, or has too much."""
    for what, of_page in COMPARED.items():
        if of_page(english) != of_page(japanese):
            yield what
    if any(not re.search(r"[ぁ-んァ-ヶ一-龠]", part) for part in _paragraphs(japanese)):
        yield "a paragraph is not translated"


def _code(page: str) -> list[tuple[str, str]]:
    return [(language, _bare(text, language)) for _, language, text in BLOCK.findall(page) if language in CODE]


def _bare(text: str, language: str) -> str:
    """The code without comments: these are translated."""
    if language in ("json", "text"):
        return text
    lines = [re.sub(r"(^|\s+)#\s(?!noqa).*$", "", line) for line in text.split("\n")]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _sections(page: str) -> list[int]:
    return [len(head) for head in re.findall(r"^(#+) ", BLOCK.sub("", page), re.MULTILINE)]


def _rows(page: str) -> int:
    return len(re.findall(r"^\|", page, re.MULTILINE))


def _codes(page: str) -> set[str]:
    return set(re.findall(r"(?<![A-Z])OUT\d{3}(?!\d)", _without_comments(page)))


def _figures(page: str) -> set[str]:
    return set(re.findall(r"(?<![A-Za-z0-9_.])\d+\.\d+(?![A-Za-z0-9_]|\.\d)", _without_comments(page)))


def _without_comments(page: str) -> str:
    return re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)


def _paragraphs(page: str) -> list[str]:
    """The paragraphs with enough letters to be prose."""
    text = _without_comments(BLOCK.sub("", page))
    return [part for part in re.split(r"\n\n+", text) if len(re.sub(r"`[^`]*`|[^A-Za-z]", "", part)) > 40]


COMPARED: dict[str, Callable[[str], object]] = {
    "the code differs": _code,
    "the sections differ": _sections,
    "the tables have other rows": _rows,
    "other rules are named": _codes,
    "the figures differ": _figures,
}


def report() -> Iterator[str]:
    """One line for each page that is out of date."""
    known = {japanese for _, japanese in pairs()}
    for page in sorted({*(DOCS / "ja").rglob("*.md")} - known):
        yield f"{page.relative_to(ROOT)}: its English page is gone"
    for english, japanese in pairs():
        if not japanese.exists():
            yield f"{japanese.relative_to(ROOT)}: missing"
            continue
        found = list(out_of_date(english.read_text("utf-8"), japanese.read_text("utf-8")))
        if found:
            yield f"{japanese.relative_to(ROOT)}: {', '.join(found)}"


def main() -> None:
    """Prints the list."""
    lines = list(report())
    print(
        "\n".join(["Japanese pages that are out of date:", *lines] if lines else ["The Japanese pages are up to date."])
    )
    if lines and "--release" in sys.argv[1:]:
        sys.exit(1)


if __name__ == "__main__":
    main()
