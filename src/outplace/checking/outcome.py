"""What checking a file came to, and what checking all of them did."""

from __future__ import annotations

from dataclasses import dataclass, field

from outplace.model import Finding


@dataclass(frozen=True)
class Failure:
    """A file that could not be analysed: `message` says why, `line` where that is known.

    `internal` means that the fault is outplace's own.
    """

    file: str
    message: str
    line: int | None = None
    internal: bool = False


@dataclass(frozen=True)
class Note:
    """Something about a file that is worth saying and changes nothing."""

    file: str
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What is known of one file after it was checked; `dependencies` are other files that this rests on."""

    file: str
    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a whole run has to say, in the order in which it is said."""

    findings: list[Finding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
