"""The one data model: what a diagnosis is made of.

Both halves of outplace (the runtime record and the source analysis) produce these, and every report and repair
consumes them. Plain frozen dataclasses; nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Safety = Literal["safe", "unsafe", "suggestion"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Site:
    """A place in the user's source. Lines count from 1, columns from 0; `end_column` is one past the last character."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str
    text: str


@dataclass(frozen=True)
class Mutation:
    """One in-place operation that ran: `version` is the tensor's version after it, None if the write did not change it.

    `chain` holds the library frames between the user's line and the operation itself, outermost first.
    `count` says how often this line wrote the tensor; `moment` is the number of the graph node that was made next.
    """

    operation: str
    site: Site | None
    version: int | None = None
    count: int = 1
    chain: tuple[Site, ...] = ()
    moment: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SavedTensor:
    """What an autograd node keeps for its backward, and where that node was made.

    `number` is the node's place in the order in which nodes were made: it differs at each step of a training loop.
    `chain` holds library frames below the user's line. They are known for layers of libraries in compiled regions.
    """

    node: str
    saved_as: str
    version: int | None
    site: Site | None
    number: int | None = field(default=None, compare=False)
    chain: tuple[Site, ...] = ()


@dataclass(frozen=True)
class GraphEdge:
    """A way on towards the leaves: the node at the index `to`, past `skipped` nodes that are left out."""

    to: int
    skipped: int = 0


@dataclass(frozen=True)
class GraphNode:
    """A node of the autograd graph; `leaf` is the name of the tensor whose gradient it collects."""

    node: str
    number: int | None
    site: Site | None
    inputs: tuple[GraphEdge, ...] = ()
    leaf: str | None = None


@dataclass(frozen=True)
class Graph:
    """The part of an autograd graph that a bug is about: from where backward starts to what was overwritten.

    The roots come first. `size` counts the nodes of the whole graph.
    """

    nodes: tuple[GraphNode, ...]
    size: int


@dataclass(frozen=True)
class Tensor:
    """The tensor a diagnosis is about: its name in the user's code where one was found."""

    name: str | None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    local_shape: tuple[int, ...] | None = None
    """The part that this rank holds, if the tensor is distributed over ranks."""


@dataclass(frozen=True)
class Fix:
    """A remedy: `diff` is a unified diff where the rewrite is plain, None where only advice can be given."""

    title: str
    safety: Safety
    diff: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """One bug."""

    kind: str
    code: str
    error: str
    tensor: Tensor
    why: str
    raised_at: Site | None = None
    saved_by: SavedTensor | None = None
    also_saved_by: tuple[SavedTensor, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    made_at: Site | None = None
    """Where the leaf or the view was made, for the kinds that are raised where the operation stands."""
    cause: str = ""
    """The name of the silent rule that it breaks; empty for other kinds."""
    optimizer_at: Site | None = None
    """Where the optimizer was made that steps what stood here before."""
    kept_at: Site | None = None
    """Where a tensor was kept beyond its step, and so its graph, which backward has freed."""
    used_at: Site | None = None
    """Where it was used again after that."""
    fixes: tuple[Fix, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What to know about this evidence: disjoint regions, a write that was not recorded, a compiled region."""
    graph: Graph | None = field(default=None, compare=False)


class TrainingEvent(NamedTuple):
    """One event of a training step, by the line of the function that runs the step and the backward."""

    kind: Literal["forward", "backward", "clear", "clip", "step"]
    line: int
    parameters: frozenset[int]
    """Numbers for the parameters that it reads, whose gradients it adds to, clears or clips, or that it updates."""


class StepOrder(NamedTuple):
    """An update of parameters and the backward after it: their lines in the innermost function that runs both."""

    file: str
    step_line: int
    backward_line: int
    loss_is_older: bool
    """Was what goes backward computed before the update?"""
    held: tuple[tuple[str, str], ...] = ()
    """The names of that function that hold a graph, and how: `tensor`, `tuple`, `list` or `dict`."""
    stale: tuple[str, ...] = ()
    """Those of them whose backward needs parameters of before the update."""
    for_the_step: tuple[str, ...] = ()
    """Those of them whose backward surely reaches nothing but the updated parameters."""
    optimizers: tuple[tuple[str, bool], ...] = ()
    """The optimizers that the function can name: do they hold some of the updated parameters?"""
    stepped_at: tuple[str, int] | None = None
    """The file and line of the update itself."""
    events: tuple[TrainingEvent, ...] = ()
    """What the function did, loop iteration after loop iteration."""
    complete: bool = False
    """Are these surely all events, with all of their parameters?"""
    adds_up: bool = False
    """Does the backward add to earlier gradients of weights that wait for their step?"""


@dataclass(frozen=True)
class Finding:
    """What the source analysis has found on one writing line.

    `error` means: this raises, or gives a wrong gradient, whenever it is reached in training.
    """

    kind: str
    code: str
    severity: Severity
    site: Site
    message: str
    saved_by: Site | None = None
    fix: Fix | None = None
    order: StepOrder | None = None
    cause: str = ""
    """Which of several causes of its kind; of a silent bug the name of its rule."""
    savers: tuple[tuple[Site, str], ...] = ()
    """All operations that keep what is written, `saved_by` first: where, and `result` where it is their own result."""
    hypothesis: str = ""
    """What has to hold for it to break, where the code does not say: "x requires grad". Then it is a warning."""


def is_refused(bug: Diagnosis | Finding) -> bool:
    """Does PyTorch refuse the operation itself (OUT1xx)?"""
    return bug.code.startswith("OUT1")


def is_silent(bug: Diagnosis | Finding) -> bool:
    """Does PyTorch raise no error (OUT3xx)?"""
    return bug.code.startswith("OUT3")
