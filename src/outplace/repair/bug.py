"""One bug as repairs see it, whether it was found in the source or by running."""

from __future__ import annotations

from dataclasses import dataclass

from outplace.model import Diagnosis, Finding, Safety, Site
from outplace.repair.edits import Edit


@dataclass(frozen=True)
class Bug:
    """What is known: the lines that write, the line that saved (the nearest first), the tensor's name."""

    kind: str
    writes: tuple[Site, ...]
    savers: tuple[tuple[Site, str], ...] = ()
    """Each with what the tensor is to the node: `self`, `result`, `weight`; empty where that is not known."""
    tensor: str | None = None
    made_at: Site | None = None
    about: str = ""
    """The error or the message."""


@dataclass(frozen=True)
class Candidate:
    """A way to repair a bug: edits by file.

    `provable` marks an unsafe one that a run with reference gradients can make sure of.
    """

    title: str
    safety: Safety
    edits: dict[str, tuple[Edit, ...]]
    provable: bool = False


def of_finding(finding: Finding) -> Bug:
    """The bug of a finding of `outplace check`."""
    savers = ((finding.saved_by, ""),) if finding.saved_by is not None else ()
    return Bug(finding.kind, (finding.site,), savers, about=finding.message)


def of_diagnosis(diagnosis: Diagnosis) -> Bug:
    """The bug of a diagnosis of `outplace run`."""
    writes = tuple(dict.fromkeys(mutation.site for mutation in diagnosis.mutations if mutation.site is not None))
    saved = [diagnosis.saved_by, *diagnosis.also_saved_by]
    savers = tuple(dict.fromkeys((one.site, one.saved_as) for one in saved if one is not None and one.site is not None))
    return Bug(diagnosis.kind, writes, savers, diagnosis.tensor.name, diagnosis.made_at, diagnosis.error)
