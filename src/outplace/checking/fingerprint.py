"""Recognises a finding again after the file around it has changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from outplace.model import Finding

_COMMENT = re.compile(r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*")
_BEFORE_CLOSING = re.compile(r",(?=[)\]}])")


def statement(text: str) -> str:
    """The statement without what a formatter may change: comments, spaces, line breaks, trailing commas, quotes."""
    bare = _COMMENT.sub(lambda match: match[1] or "", text)
    return _BEFORE_CLOSING.sub("", re.sub(r"\s+", "", bare)).replace("'", '"')


def key(finding: Finding) -> tuple[str, str, str]:
    """The rule, the function and the statement. Without a line number, edits elsewhere do not matter."""
    return finding.code, finding.site.function, statement(finding.site.text)


def digests(findings: Sequence[Finding], files: Sequence[str]) -> list[str]:
    """A stable name for each finding. `files`: their files as shown to readers. Equal findings are numbered."""
    counts: dict[tuple[str, ...], int] = {}
    names = []
    for finding, file in zip(findings, files, strict=True):
        parts = (file, *key(finding))
        counts[parts] = nth = counts.get(parts, 0) + 1
        whole = "\0".join((*parts, str(nth)))
        names.append(hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=16).hexdigest())
    return names
