"""The autograd graph of the program that is read: storages, nodes, what each node saves, and every write.

Time is a counter. Each write and each node has a path: which arm of every undecided branch it lies on.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.traits import has
from outplace.source.overlaps import Region, apart

if TYPE_CHECKING:
    from outplace.source.project import Module
    from outplace.source.training_step import StepFacts
    from outplace.source.values import Tensor

Path = tuple[tuple[int, int], ...]
"""Which arm was taken at each undecided branch."""


Group = tuple[tuple[int, int, int], ...]
"""Which of several values a statement was run on: a number for the run, which one, and of how many."""


clock = itertools.count(1)
"""One clock for all runs: what a module's `__init__` wrote lies before whatever its methods save."""


@dataclass(frozen=True)
class Place:
    """An expression or statement of a file, and the function it stands in."""

    module: Module
    node: ast.AST
    function: str


_REPLACING = frozenset(("out=", ".data =", "item assignment", "numpy", "zero_grad"))


def replaces(operation: str) -> bool:
    """Does such a write depend on nothing that was there?"""
    return operation in _REPLACING or has(operation, "replaces")


class Storage:
    """A piece of memory: all views and aliases of a tensor share it, and one version counter."""

    __slots__ = (
        "averaged",
        "averaged_read",
        "copied",
        "is_index_copy",
        "made",
        "overwritten",
        "read",
        "recomputed",
        "refused",
        "restored",
        "writes",
    )

    def __init__(self) -> None:
        self.made = next(clock)
        self.writes: list[Write] = []
        self.copied: tuple[Storage, int] | None = None
        """Of a clone: what it was copied from, and when."""
        self.is_index_copy = False
        """Was it surely copied by an index that is a mask, a list or a tensor?"""
        self.recomputed: Path | None = None
        """Of a weight that is computed, and only for who has just read it: the way on which it is."""
        self.restored: list[Restored] = []
        self.averaged: list[Write] = []
        """Of a model's parameter: writes to its `state_dict()`, which another model has loaded."""
        self.averaged_read = False
        """Has its own model's state been taken since then?"""
        self.overwritten: list[tuple[Tensor, Write]] = []
        """Tensors that were changed through a leaf which somebody made of them, and by which writes."""
        self.read: int | None = None
        """When an operation last read it; None for all that nobody asks this of."""
        self.refused = False
        """Has a write been refused, so that the program, as it stands, comes no further with it?"""

    def replaced_since(self, time: int) -> bool:
        """Has it got new contents, at least in part?"""
        return any(write.time > time and replaces(write.operation) for write in self.writes)


class Family:
    """A tensor and its views: their history is one. A detached alias shares the memory, not the family."""

    __slots__ = ("grad", "leaf", "node", "since", "sure")

    def __init__(self) -> None:
        self.node: Node | None = None
        """The node of the latest recorded write to any of them, which all then depend on."""
        self.since = 0
        self.sure = True
        """Was it surely written then? (Not where the writer may be a copy.)"""
        self.grad: bool | None = False
        """Does the tensor that the others are views of require grad?"""
        self.leaf: Tensor | None = None
        """That tensor, if it is a leaf that requires grad."""


@dataclass(frozen=True)
class Write:
    """One write of a storage."""

    time: int
    path: Path
    place: Place
    operation: str
    certain: bool
    tracked: bool = True
    """False for writes that move no version: `.data`, numpy, fused optimizers."""
    step: bool = False
    """An update of parameters."""
    target: str = ""
    group: Group = ()
    anchor: object | None = None
    """See `Tensor.anchor`."""
    region: Region | None = ()
    """Which part of the storage's first tensor it writes, where that is known."""
    moved: Tensor | None = None
    """Of `x.data = y`: the tensor that lies elsewhere from then on. For all others its old memory stays as it was."""
    placed: bool = False
    """A number, at places that the program names: `x[:, 0] = 1.0`, not those that a mask of x's own values chooses."""
    detached: bool = False
    """Made through a tensor that has surely no graph: autograd records nothing."""


@dataclass(frozen=True)
class Cut:
    """`x.data = y`, where y has a graph: x gets the values, and the leaves behind y no gradient."""

    target: Tensor
    leaves: tuple[Tensor, ...]
    place: Place
    path: Path


@dataclass(frozen=True)
class Restored:
    """A moment at which a tensor was given back what it held at an earlier one."""

    time: int
    path: Path
    earlier: int


@dataclass(frozen=True)
class Save:
    """A storage that a node keeps."""

    storage: Storage
    time: int
    saved_as: str
    certain: bool
    parameter: bool = False
    anchor: object | None = None
    """See `Tensor.anchor`; None also where it is not certain that the node keeps it."""
    itself: Tensor | None = None
    """The tensor, where the node surely keeps that very object: no view of it, and not its own result."""

    @property
    def region(self) -> Region | None:
        """Which part of the storage's first tensor it is, where that is known."""
        return self.itself.region if self.itself is not None else () if self.saved_as == "result" else None


@dataclass(frozen=True)
class Block:
    """A run of a checkpointed function: backward runs it again, and goes by what it saves then."""

    begin: int
    end: int
    reentrant: bool | None
    """Whether backward looks at versions, None where that is not known."""
    saves: dict[int, ast.AST]
    """When it saves, and where."""

    def is_spared(self, save: Save, write: Write) -> bool:
        """Is what it saves, of its own, still there when backward has run it again and needs it?"""
        if write.time > self.end:
            return True
        # One that is not reentrant ends with the last that it has to save; and it goes by contents, not by versions.
        ended = not any(time > write.time and node is not write.place.node for time, node in self.saves.items())
        return self.reentrant is False and (ended or apart(write.region, save.region))


class Node:
    """One operation that autograd recorded."""

    __slots__ = (
        "assumed", "backward", "block", "inputs", "leaves", "operation", "outputs", "partial", "path", "place",
        "refused", "saves",
        "time",
    )  # fmt: skip

    def __init__(self, operation: str, place: Place, time: int, path: Path) -> None:
        self.operation, self.place, self.time, self.path = operation, place, time, path
        self.inputs: list[Node] = []
        self.leaves: list[Tensor] = []
        self.saves: list[Save] = []
        self.outputs: list[Storage] = []
        self.backward: Callable[[], None] | None = None
        """Runs the backward of a custom Function."""
        self.block: Block | None = None
        self.assumed = ""
        """The hypothesis that it stands for (see `hypotheses`)."""
        self.refused = False
        """Is it a write that PyTorch refuses, so that nothing comes through it as the program stands?"""
        self.partial = False
        """Was it given something unknown, which may have a graph of its own?"""


@dataclass(frozen=True)
class Hit:
    """A write that breaks, or would break, a backward: what a rule turns into a finding."""

    kind: str
    write: Write | None
    place: Place
    certain: bool
    node: Node | None = None
    save: Save | None = None
    detail: str = ""
    group: Group = ()
    """Of the backward, or of what is refused at once; a write has its own."""
    order: StepFacts | None = None
    """Where an update of parameters stands before the backward."""
    hypothesis: str = ""
    """What has to hold for it to break, where that is not known."""

    @classmethod
    def silent(cls, rule: SilentRule, write: Write | None, place: Place, certain: bool) -> Hit:
        """A hit of a silent rule."""
        return cls(rule.family, write, place, certain, detail=rule.name)


def compatible(first: Path, *others: Path) -> bool:
    """Can all these lie on one way through the branches?"""
    paths = [path for path in others if path and path is not first]
    if not paths:
        return True
    taken = dict(first)
    for path in paths:
        for branch, arm in path:
            if taken.setdefault(branch, arm) != arm:
                return False
    return True
