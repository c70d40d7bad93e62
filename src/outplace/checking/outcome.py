"""The result of checking one file, and of checking all files."""

from __future__ import annotations

from dataclasses import dataclass, field

from outplace.model import Finding


@dataclass(frozen=True)
class Failure:
    """A file that could not be analysed: `message` says why, `line` where, if that is known.

    `internal`: a bug of outplace itself.
    """

    file: str
    message: str
    line: int | None = None
    internal: bool = False


@dataclass(frozen=True)
class Note:
    """A remark about a file. It does not change the result.

    `left_out`: the file, or the rest of it, was not checked.
    """

    file: str
    message: str
    line: int | None = None
    left_out: bool = False
    cut: bool = False
    """A function was too long to follow to its end. The rest of the file was checked."""


@dataclass(frozen=True)
class Outcome:
    """The result for one file. `dependencies`: other files that the result depends on."""

    file: str
    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The result of a whole run, in the order of the report."""

    findings: list[Finding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left_out: list[Note] = field(default_factory=list)
    """The files that were not checked to their end."""
    cut: list[Note] = field(default_factory=list)
    """The functions that were not followed to their end."""
