"""The page of a rule, as part of a report: the text of `outplace explain`, so that the report needs no network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from outplace.knowledge.kinds import BY_CODE, page
from outplace.report.html import highlight

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True)
class RulePage:
    """A rule's page; `id` is what the code of a diagnosis links to."""

    id: str
    title: str
    html: Markup


def rule_id(prefix: str, code: str) -> str:
    """The name of a rule's page in a document; empty where there is no such rule."""
    return f"{prefix}rule-{code}" if code in BY_CODE else ""


def rule_page(prefix: str, code: str) -> RulePage | None:
    """The page of a rule; None where there is no such rule."""
    if code not in BY_CODE:
        return None
    title, _, text = page(BY_CODE[code]).partition("\n")
    return RulePage(rule_id(prefix, code), title.lstrip("# "), Markup("\n").join(_blocks(text.split("\n"))))


def _blocks(lines: list[str]) -> Iterator[Markup]:
    """The Markdown that rules are written in: headings, code, lists, tables and paragraphs."""
    for kind, group in groupby(_sorted(lines), key=lambda pair: pair[0]):
        texts = [text for _, text in group]
        if kind == "code":
            yield Markup("<pre tabindex='0'>{}</pre>").format(Markup("\n").join(map(highlight.line, texts)))
        elif kind == "heading":
            yield from (Markup("<h4>{}</h4>").format(_inline(text.lstrip("# "))) for text in texts)
        elif kind == "list":
            items = Markup("").join(Markup("<li>{}</li>").format(_inline(text)) for text in _items(texts))
            yield Markup("<ul>{}</ul>").format(items)
        elif kind == "table":
            yield _table(texts)
        elif kind == "text":
            yield Markup("<p>{}</p>").format(_inline(" ".join(texts)))


def _sorted(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line with the kind of block that it belongs to. A line between two blocks of one kind is `end`."""
    kind, is_code = "", False
    for line in lines:
        if line.startswith("```"):
            is_code, kind = not is_code, "end"
        elif is_code:
            kind = "code"
        elif not line.strip():
            kind = "end"
        elif line.startswith("#"):
            kind = "heading"
        elif line.startswith("|"):
            kind = "table"
        elif re.match(r"([-*]|\d+\.) ", line) or (kind == "list" and line.startswith(" ")):
            kind = "list"
        else:
            kind = "text"
        yield kind, line


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.split(" ", 1)[1])
    return items


def _table(lines: list[str]) -> Markup:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if not re.fullmatch(r"[|: -]+", line)
    ]
    result = (_row(cells, "td" if number else "th") for number, cells in enumerate(rows))
    return Markup("<div class='wide'><table>{}</table></div>").format(Markup("").join(result))


def _row(cells: list[str], tag: str) -> Markup:
    result = Markup("").join(Markup("<{0}>{1}</{0}>").format(Markup(tag), _inline(cell)) for cell in cells)
    return Markup("<tr>{}</tr>").format(result)


def _inline(text: str) -> Markup:
    def piece(found: re.Match[str]) -> str:
        code, bold, slanted, link = found.groups()
        tag = "code" if code else "b" if bold else "em" if slanted else "span"
        return str(Markup("<{0}>{1}</{0}>").format(Markup(tag), Markup(code or bold or slanted or link)))

    return Markup(_INLINE.sub(piece, str(escape(text))))
