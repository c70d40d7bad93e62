"""Adds `# noqa` comments that suppress findings."""

from __future__ import annotations

import re
from collections.abc import Iterable

from outplace.checking import noqa
from outplace.checking.notebook import SUFFIX
from outplace.model import Finding
from outplace.repair.syntax import files
from outplace.repair.syntax.edits import parses

_LISTED = re.compile(r"(#\s*noqa\s*:\s*[\w-]+(?:\s*,\s*[\w-]+)*)", re.IGNORECASE)


def add(path: str, findings: Iterable[Finding]) -> int:
    """Writes the comments into a file, and returns how many lines have a new one or a longer one."""
    if path.endswith(SUFFIX):
        raise files.Unwritable("comments are not added to notebooks")
    document = files.read(path)
    text = document.text
    for finding in findings:
        if not noqa.read(text, (finding,)).covers(finding):  # the comment for another finding may do
            text = ignored(text, finding) or text
    if text != document.text:
        files.write(path, document.encode(text))
    return sum(old != new for old, new in zip(document.text.split("\n"), text.split("\n"), strict=True))


def ignored(text: str, finding: Finding) -> str | None:
    """The text with a comment that suppresses the finding; None if no line can have one."""
    for number in dict.fromkeys([finding.site.line, finding.site.end_line]):
        text_lines = text.split("\n")
        if not 0 < number <= len(text_lines):
            continue
        text_lines[number - 1] = _commented(text_lines[number - 1], finding.code)
        changed = "\n".join(text_lines)
        # Inside a string or after a backslash it is no comment: try the last line of the statement.
        if noqa.read(changed, (finding,)).covers(finding) and (parses(changed) or not parses(text)):
            return changed
    return None


def _commented(line: str, code: str) -> str:
    if _LISTED.search(line):
        return _LISTED.sub(rf"\1, {code}", line, count=1)
    return f"{line.rstrip()}  # noqa: {code}"
