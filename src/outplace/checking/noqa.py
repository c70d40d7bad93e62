"""Comments that suppress findings: `# noqa`, `# noqa: OUT201, saved`, and for a file `# outplace: noqa`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from outplace.checking import noqa, rules
from outplace.checking.notebook import SUFFIX
from outplace.knowledge.kinds import BY_CODE
from outplace.model import Finding
from outplace.repair.syntax import files
from outplace.repair.syntax.edits import parses

_LINE = re.compile(r"#\s*noqa(?P<list>\s*:\s*(?P<words>[^#]*))?(?=\W|$)", re.IGNORECASE)
_FILE = re.compile(r"#\s*outplace\s*:\s*noqa(?P<list>\s*:\s*(?P<words>[^#]*))?\s*$", re.IGNORECASE)
_FOR_FILE = re.compile(r"#\s*outplace\s*:\s*noqa", re.IGNORECASE)
_LISTS = re.compile(r"noqa\s*:", re.IGNORECASE)
_CODE = re.compile(r"\bOUT\d", re.IGNORECASE)
_FIRST = re.compile(r"[\w-]+")
# After a comma, any word may be a rule. After a space, only a code is one; the rest is a remark.
_NEXT = re.compile(r"\s*,\s*([\w-]+)|\s+([A-Z]+[0-9]+)\b")
_EVERY = frozenset(BY_CODE)


@dataclass(frozen=True)
class Noqa:
    """What the comments of one file suppress, and unknown words that look like our rules."""

    everywhere: frozenset[str] = frozenset()
    lines: dict[int, frozenset[str]] = field(default_factory=dict)
    unknown: list[tuple[int, str]] = field(default_factory=list)

    def covers(self, finding: Finding) -> bool:
        """Is this finding suppressed: for the file, or on the first or last line of the statement?"""
        site = finding.site
        off = self.lines.get(site.line, frozenset()) | self.lines.get(site.end_line, frozenset())
        return finding.code in self.everywhere or finding.code in off


def read(source: str, findings: Sequence[Finding]) -> Noqa:
    """The comments that concern these findings or name one of our rules. The source must be valid Python."""
    if not _matters(source, findings):
        return Noqa()
    noqa = Noqa()
    everywhere: set[str] = set()
    for number, comment in _comments(source):
        whole = _FILE.match(comment)
        match = whole or _LINE.search(comment)
        if match is None:
            continue
        words = list(_words(match["words"] or "")) if match["list"] else []
        codes = _EVERY if not words else frozenset().union(*map(rules.matching, words))
        noqa.unknown.extend((number, word) for word in words if _ours(word) and not rules.matching(word))
        if whole:
            everywhere |= codes
        else:
            noqa.lines[number] = codes
    return Noqa(frozenset(everywhere), noqa.lines, noqa.unknown)


def _matters(source: str, findings: Sequence[Finding]) -> bool:
    """Must the comments be read? That takes longer than the analysis, and most are for other linters."""
    if "noqa" not in source.lower():
        return False
    lines = source.split("\n")
    if _FOR_FILE.search(source) or any(_names_code(line) for line in lines):
        return True
    numbers = {number for finding in findings for number in (finding.site.line, finding.site.end_line)}
    return any("noqa" in lines[number - 1].lower() for number in numbers if number <= len(lines))


def _names_code(line: str) -> bool:
    """Is one of our rules named after `noqa:`?"""
    listed = _LISTS.search(line)
    return listed is not None and _CODE.search(line, listed.end()) is not None


def _words(text: str) -> Iterator[str]:
    first = _FIRST.match(text.strip())
    if first is None:
        return
    yield first[0]
    rest, at = text.strip(), first.end()
    while (match := _NEXT.match(rest, at)) is not None:
        yield match[1] or match[2]
        at = match.end()


def _ours(word: str) -> bool:
    return re.fullmatch(r"OUT\d+", word, re.IGNORECASE) is not None


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments that contain `noqa`, not those inside strings."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and "noqa" in token.string.lower():
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):  # the rest cannot be read
        return


def unsuppressed(findings: Iterable[Finding], noqa: Noqa) -> tuple[Finding, ...]:
    """The findings that no comment suppresses."""
    return tuple(finding for finding in findings if not noqa.covers(finding))


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
