"""One bug as repairs see it, from the source or from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from outplace.knowledge import errors, silent_rules
from outplace.knowledge.kind import SilentRule
from outplace.model import Finding, Safety, Site, TrainingEvent
from outplace.repair.syntax.edits import Edit

Keeps = Literal["all", "gradients", "steps", "failed", "earlier", "beginning", "values"]
"""What a repair leaves unchanged.

- `all`: losses, gradients and weights.
- `gradients`: the same, without the weights during a backward.
- `steps`: the losses, and the gradients that each step uses.
- `failed`: the losses, with the one that failed.
- `earlier`: the losses before the one that failed.
- `beginning`: the losses of the first iterations.
- `values`: what is computed up to the first backward, whose gradients were wrong.
"""

Intent = Literal["old-weights", "new-weights"]
"""For a loss whose backward comes after an optimizer step: is it meant to use the weights from before the step?"""
INTENTS: tuple[Intent, ...] = get_args(Intent)


def two_orders(intent: Intent, command: str = "") -> str:
    """What to tell the user of a repair that fits one of two intents."""
    (other,) = (item for item in INTENTS if item != intent)
    return f"The source does not show which order was meant. For the other: {command}--intent {other}."


@dataclass(frozen=True)
class Moment:
    """A backward after an optimizer step: both lines, in the innermost function that runs both."""

    file: str
    step_line: int
    backward_line: int
    held: Mapping[str, str] = field(default_factory=dict)
    """The names that hold a graph there, and how: `tensor`, `tuple` or `list`. Empty if no run has shown it."""
    stale: Sequence[str] = ()
    """Those of them whose backward needs the weights from before the step."""
    for_the_step: Sequence[str] = ()
    """Those of them whose backward would reach only the weights that were just stepped."""
    optimizers: Mapping[str, bool] = field(default_factory=dict)
    """The optimizers that the function can name: do they hold some of the weights that were just stepped?"""
    loss_is_older: bool | None = None
    """Was the loss of the backward computed before the step?"""
    stepped_at: tuple[str, int] | None = None
    """The file and line of the step itself, which may be in a called function."""
    adds_up: bool = False
    """Does the backward add to earlier gradients of weights that wait for their step?

    Only weights count that it also reaches beside the stepped ones, not only through what these compute.
    """
    by_optimizer: bool = True
    """False for an update by hand: weights that are averaged, clipped, reset."""
    from_source: bool = False
    """Does all this come from the source analysis only, without a run?"""
    events: Sequence[TrainingEvent] = ()
    """What the function did to parameters and gradients, as the source analysis followed it."""
    complete: bool = False
    """Is the list of events certainly complete?"""


@dataclass(frozen=True)
class Bug:
    """The facts: the lines that write, the line that saved (the nearest first), the tensor's name."""

    kind: str
    writes: tuple[Site, ...]
    savers: tuple[tuple[Site, str], ...] = ()
    """Each with the role of the tensor in the node: `self`, `result`, `weight`; empty if unknown."""
    tensor: str | None = None
    made_at: Site | None = None
    error: str = ""
    """PyTorch's message, if a run has raised it."""
    cause: str = ""
    """The cause within its kind: the name of a silent rule, or a word that the kind defines."""
    optimizer_line: int | None = None
    """Where, in the same file, the optimizer was made that does not step this parameter."""
    from_run: bool = False
    """Has a run shown it? Else it was found in the source."""
    raised_at: Site | None = None
    """The backward that failed."""
    moment: Moment | None = None
    """The optimizer step and the backward after it, if there was one. It need not be the step that wrote."""
    intent: Intent | None = None
    """What the user has said with `--intent`."""

    @property
    def recognised(self) -> errors.Match | None:
        """The entry of the error catalogue for PyTorch's message."""
        return errors.recognise(self.error) if self.error else None

    @property
    def rule(self) -> SilentRule | None:
        """The silent rule of this bug."""
        return silent_rules.BY_NAME.get(self.cause)


@dataclass(frozen=True)
class Candidate:
    """A way to repair a bug: edits by file.

    `provable` marks an unsafe one that a run can verify, by what it `keeps`.
    """

    title: str
    safety: Safety
    edits: dict[str, tuple[Edit, ...]]
    provable: bool = False
    keeps: Keeps = "all"
    checking: dict[str, tuple[Edit, ...]] | None = None
    """The edits with checks that need a run. These are run; the plain edits are written to the file."""
    once: bool = False
    """One such change is enough for all writes of a function."""
    is_update: bool = False
    """The write still writes the leaf, under `no_grad`."""
    operand: str = ""
    """The expression that backward gets a copy of."""
    intent: Intent | None = None
    """Set if another repair fits the other intent."""


def of_finding(finding: Finding) -> Bug:
    """The bug of a finding of `outplace check`."""
    moment = None
    if finding.order is not None:
        known = finding.order._asdict()
        known.update(held=dict(finding.order.held), optimizers=dict(finding.order.optimizers), from_source=True)
        moment = Moment(**known)
    return Bug(finding.kind, (finding.site,), finding.savers, cause=finding.cause, moment=moment)
