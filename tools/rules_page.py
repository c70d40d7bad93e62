"""Writes the table of the silent rules into docs/silent.md and its translation."""

from __future__ import annotations

import re
from pathlib import Path

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.silent_rules import RULES

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLE = re.compile(r"(?<=<!-- rules -->\n).*?(?=<!-- end of rules -->)", re.DOTALL)
HEADS = {
    "silent.md": ("code", "name", "what happens", "`run`", "`check`", "fix"),
    "ja/silent.md": ("コード", "名前", "何が起きるか", "`run`", "`check`", "修正"),
}


def table(page: str) -> str:
    """The rows of a page, as Markdown."""
    heads = HEADS[page]
    rows = [heads, ("---",) * len(heads), *(_row(rule, page) for rule in RULES)]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def _row(rule: SilentRule, page: str) -> tuple[str, ...]:
    summary = (summary_in_japanese(rule.code) if page.startswith("ja/") else None) or rule.summary
    marks = ("✓" if rule.detector else "", rule.check, "✓" if rule.fix else "")
    return (rule.code, f"`{rule.name}`", summary, *marks)


def summary_in_japanese(code: str) -> str | None:
    """The first sentence of the rule's page; None if it is not translated yet."""
    path = DOCS / "ja" / "kinds" / f"{code}.md"
    if not path.exists():
        return None
    page = path.read_text("utf-8")
    return page.partition("\n## ")[2].partition("\n\n")[2].partition("。")[0]


def main() -> None:
    """Writes both pages."""
    for page in HEADS:
        path = DOCS / page
        path.write_text(TABLE.sub(lambda _, page=page: table(page), path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
