"""`--output-format github`: annotations on the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Result
from outplace.files.naming import under_cwd
from outplace.model import Finding
from outplace.report.findings import concise, places


def render(result: Result) -> str:
    """One workflow command a finding, and one for each file that could not be analysed, or not to its end."""
    return "".join(f"{line}\n" for line in _lines(result))


def _lines(result: Result) -> Iterator[str]:
    for finding in result.findings:
        yield _command(finding.severity, _where(finding), f"outplace ({finding.code})", concise.line(finding))
    for failure in result.failures:
        yield _command("error", _whereabouts(failure), "outplace", places.message(failure))
    for note in result.left_out:
        yield _command("notice", _whereabouts(note), "outplace", places.message(note))


def _where(finding: Finding) -> dict[str, object]:
    site = finding.site
    path, cell = split_cell(site.file)
    if cell is not None:  # lines of a cell are not lines of the file
        return {"file": under_cwd(path)}
    spot: dict[str, object] = {"file": under_cwd(path), "line": site.line, "endLine": site.end_line}
    if site.end_line == site.line:  # GitHub wants columns only within one line
        spot |= {"col": site.column + 1, "endColumn": site.end_column + 1}
    return spot


def _whereabouts(about: Failure | Note) -> dict[str, object]:
    path, cell = split_cell(about.file)
    spot: dict[str, object] = {"file": under_cwd(path)}
    return spot if cell is not None or about.line is None else spot | {"line": about.line}


def _command(level: str, where: dict[str, object], title: str, message: str) -> str:
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in {"title": title, **where}.items())
    return f"::{level} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
