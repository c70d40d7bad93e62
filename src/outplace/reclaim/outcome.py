"""The result of `outplace reclaim`: the runs before and after, the changes, and what was rejected."""

from __future__ import annotations

from dataclasses import dataclass, field

from outplace.reclaim.observe.timeline import Account
from outplace.reclaim.observe.trial import Trial
from outplace.reclaim.rules.advice import Advice
from outplace.reclaim.rules.suggestion import Suggestion


@dataclass
class Outcome:
    """The result of the command. `trouble` says why there is no result."""

    first: Trial
    advice: Advice | None = None
    after: Trial | None = None
    """The run with all changes; None if there are none, or none was tried."""
    texts: dict[str, str] = field(default_factory=dict)
    """The changed files."""
    originals: dict[str, str] = field(default_factory=dict)
    """The program's own files as they were."""
    rejected: list[Suggestion] = field(default_factory=list)
    """Changes that looked safe, but with which the program computed something else."""
    unsteady: str = ""
    """How a second run of the unchanged program differed. Then nothing can be proved."""
    exact: bool = False
    """Were only CUDA algorithms used that give the same bits in every run?"""
    allocator: tuple[int, int | None] | None = None
    """The peak by CUDA's own statistics, before and after, from runs without recording."""
    seconds: tuple[float, float] | None = None
    """The time of a step, before and after, in runs without recording."""
    trouble: str = ""


def activations(outcome: Outcome) -> tuple[int, int | None]:
    """The peak without parameters, gradients and optimizer state, before and after."""
    assert outcome.first.recording is not None
    before = Account(outcome.first.recording)
    after = None
    if outcome.after is not None and outcome.after.recording is not None:
        account = Account(outcome.after.recording)
        after = account.curve().peak - account.standing()
    return before.curve().peak - before.standing(), after
