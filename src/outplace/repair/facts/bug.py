"""One bug as repairs see it, whether it was found in the source or by running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outplace.knowledge import silent_rules
from outplace.knowledge.kind import SilentRule
from outplace.model import Finding, Safety, Site, StepOrder, TrainingEvent
from outplace.repair.syntax.edits import Edit

Keeps = Literal["all", "gradients", "steps", "earlier", "beginning", "values"]
"""What a repair leaves as it was: losses, gradients and weights; not the weights while a backward runs; the losses, and
the gradients that each step takes; the losses before the one that failed; the losses of the first rounds; what is
computed up to the first backward, whose gradients were wrong."""


@dataclass(frozen=True)
class Moment:
    """A backward that comes after an optimizer's step: both lines, in the innermost function that runs both."""

    file: str
    step_line: int
    backward_line: int
    held: Mapping[str, str] = field(default_factory=dict)
    """What holds a graph there, and how: `tensor`, `tuple` or `list`. Empty where no run has shown it."""
    stale: Sequence[str] = ()
    """Those of them whose backward needs weights of before the step."""
    for_the_step: Sequence[str] = ()
    """Those of them whose backward would reach nothing but the weights that have just been stepped."""
    optimizers: Mapping[str, bool] = field(default_factory=dict)
    """The optimizers that the function can name: do they hold some of the weights that have just been stepped?"""
    root_is_older: bool | None = None
    """Was what goes backward computed before the step?"""
    stepped_at: tuple[str, int] | None = None
    """The file and line of the step itself, which may stand in a function that was called."""
    by_optimizer: bool = True
    """Else it is an update by hand: weights that are averaged, clipped, reset."""
    from_source: bool = False
    """Has the source analysis told all this, and no run shown it?"""
    events: Sequence[TrainingEvent] = ()
    """What the function did to parameters and gradients, as the source analysis has followed it."""
    complete: bool = False
    """Are these surely all events?"""


@dataclass(frozen=True)
class Bug:
    """What is known: the lines that write, the line that saved (the nearest first), the tensor's name."""

    kind: str
    writes: tuple[Site, ...]
    savers: tuple[tuple[Site, str], ...] = ()
    """Each with what the tensor is to the node: `self`, `result`, `weight`; empty where that is not known."""
    tensor: str | None = None
    made_at: Site | None = None
    error: str = ""
    """PyTorch's own words, where a run has shown them."""
    cause: str = ""
    """Which of several causes of its kind: the name of a silent rule, or what a kind tells them apart by."""
    optimizer_line: int | None = None
    """Where the optimizer was made that does not step this parameter, in the same file."""
    from_run: bool = False
    """Has a run shown it? Else it was found in the source."""
    raised_at: Site | None = None
    """The backward that failed."""
    moment: Moment | None = None
    """Where an optimizer has stepped before the backward: the two. It need not be the step that wrote."""

    @property
    def rule(self) -> SilentRule | None:
        """The silent rule that it breaks."""
        return silent_rules.BY_NAME.get(self.cause)


@dataclass(frozen=True)
class Candidate:
    """A way to repair a bug: edits by file.

    `provable` marks an unsafe one that a run can make sure of, by what it `keeps`.
    """

    title: str
    safety: Safety
    edits: dict[str, tuple[Edit, ...]]
    provable: bool = False
    keeps: Keeps = "all"
    checking: dict[str, tuple[Edit, ...]] | None = None
    """The edits with checks of what only a run can show: they are run, the others are written."""
    once: bool = False
    """One such change is enough for all writes of a function."""
    is_update: bool = False
    """The write stays a write of the leaf, under `no_grad`."""
    operand: str = ""
    """The expression of which backward gets a copy."""


def of_finding(finding: Finding) -> Bug:
    """The bug of a finding of `outplace check`."""
    savers = ((finding.saved_by, ""),) if finding.saved_by is not None else ()
    order = finding.order
    moment = _moment_of(order) if order is not None else None
    return Bug(finding.kind, (finding.site,), savers, cause=finding.cause, moment=moment)


def _moment_of(order: StepOrder) -> Moment:
    return Moment(
        order.file,
        order.step_line,
        order.backward_line,
        dict(order.held),
        order.stale,
        order.for_the_step,
        dict(order.optimizers),
        order.loss_is_older,
        order.stepped_at,
        from_source=True,
        events=order.events,
        complete=order.complete,
    )
