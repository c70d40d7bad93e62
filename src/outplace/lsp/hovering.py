"""Hover text: the finding, and the page of its rule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsprotocol import types

from outplace.files import reading
from outplace.knowledge.kinds import BY_CODE, page
from outplace.lsp import texts

if TYPE_CHECKING:
    from outplace.lsp.server import Server

_CODE = re.compile(r"\bOUT\d{3}\b")


async def hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    """The pages of the findings under the cursor, or of the rule in a comment there."""
    uri, position = params.text_document.uri, params.position
    await server.fresh(server.whole(uri))
    findings = list(server.at(uri, types.Range(position, position)))
    if findings:
        pages = {
            finding.code: f"**outplace**: {finding.message}\n\n{page(BY_CODE[finding.code])}" for finding in findings
        }
        where = texts.range_of(findings[0].site, server.text(uri), server.codec)
        return types.Hover(_markdown("\n\n---\n\n".join(pages.values())), where)
    return _named(server, uri, position)


def _named(server: Server, uri: str, position: types.Position) -> types.Hover | None:
    lines = reading.lines(server.text(uri))
    line = lines[position.line] if position.line < len(lines) else ""
    for match in _CODE.finditer(line):
        start = texts.position(lines, position.line, match.start(), server.codec)
        end = texts.position(lines, position.line, match.end(), server.codec)
        if match[0] in BY_CODE and start.character <= position.character <= end.character:
            return types.Hover(_markdown(page(BY_CODE[match[0]])), types.Range(start, end))
    return None


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)
