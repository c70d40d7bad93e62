"""`--output-format junit`: JUnit XML, for CI servers that list failed tests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from xml.sax.saxutils import escape, quoteattr

from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Result
from outplace.files.naming import under_cwd
from outplace.model import Finding
from outplace.report.findings import concise, places
from outplace.report.words import rule_name

_T = TypeVar("_T")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold. File names may have them."""


def render(result: Result) -> str:
    """A suite for each file, and in it a failed test for each finding.

    A file that could not be analysed is an error. One that was not checked to its end is a skipped test.
    """
    suites = [
        *_by_file(result.findings, lambda finding: finding.site.file, _finding, "failures"),
        *_by_file(result.failures, lambda failure: failure.file, lambda about: _file(about, "error"), "errors"),
        *_by_file(result.left_out, lambda note: note.file, lambda about: _file(about, "skipped"), "skipped"),
    ] or [_Suite("outplace", ['    <testcase name="No findings" classname="outplace"/>'], "")]
    tests = sum(len(suite.cases) for suite in suites)
    failures, errors, skipped = (len(part) for part in (result.findings, result.failures, result.left_out))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites name="outplace" tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}">\n'
        + "".join(suite.text() for suite in suites)
        + "</testsuites>\n"
    )


@dataclass(frozen=True)
class _Suite:
    """The tests of one file. `kind`: what they all are."""

    name: str
    cases: list[str]
    kind: str

    def text(self) -> str:
        kinds = ("failures", "errors", "skipped")
        counts = " ".join(f'{kind}="{len(self.cases) if kind == self.kind else 0}"' for kind in kinds)
        head = f'  <testsuite name={_quoted(self.name)} tests="{len(self.cases)}" {counts}>'
        return "".join(f"{line}\n" for line in [head, *self.cases, "  </testsuite>"])


def _by_file(items: Iterable[_T], file: Callable[[_T], str], case: Callable[[_T], str], kind: str) -> Iterator[_Suite]:
    for path, group in itertools.groupby(items, key=lambda item: split_cell(file(item))[0]):
        yield _Suite(under_cwd(path), [case(item) for item in group], kind)


def _finding(finding: Finding) -> str:
    site = finding.site
    name = _quoted(f"{finding.code} {rule_name(finding)} in line {site.line}")
    message = " ".join(finding.message.split())
    place = f'file={_quoted(places.file(site.file))} line="{site.line}" column="{site.column + 1}"'
    return (
        f"    <testcase name={name} classname={_quoted(under_cwd(split_cell(site.file)[0]))} {place}>\n"
        f'      <failure type="{finding.severity}" message={_quoted(message)}>'
        f"{escape(_allowed(concise.line(finding)))}</failure>\n"
        "    </testcase>"
    )


def _file(about: Failure | Note, element: str) -> str:
    return (
        f'    <testcase name="check" classname={_quoted(under_cwd(split_cell(about.file)[0]))}>\n'
        f"      <{element} message={_quoted(about.message)}>{escape(_allowed(places.message(about)))}</{element}>\n"
        "    </testcase>"
    )


def _quoted(text: str) -> str:
    return quoteattr(_allowed(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
