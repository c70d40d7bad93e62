"""The autograd graph of the program that is read: storages, nodes, what each node saves, and every write.

Time is a counter. Each write and each node has a path: which arm of every undecided branch it lies on.
"""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
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


ARGUMENT = "argument"
"""The operation of a node that stands for what the caller has computed (see `hypotheses`)."""

clock = itertools.count(1)
"""One clock for all runs: a write in a module's `__init__` is earlier than all saves in its methods."""


@dataclass(frozen=True)
class Place:
    """An expression or statement of a file, and the function it stands in."""

    module: Module
    node: ast.AST
    function: str


_REPLACING = frozenset(("out=", ".data =", "item assignment", "numpy", "zero_grad"))


def replaces(operation: str) -> bool:
    """Is the result of such a write independent of the old contents?"""
    return operation in _REPLACING or has(operation, "replaces")


class Storage:
    """A piece of memory: all views and aliases of a tensor share it, and one version counter."""

    __slots__ = (
        "averaged", "averaged_read", "copied", "is_index_copy", "made", "overwritten", "read", "recomputed", "refused",
        "restored", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.made = next(clock)
        self.writes: list[Write] = []
        self.copied: tuple[Storage, int] | None = None
        """Of a clone: the storage it was copied from, and when."""
        self.is_index_copy = False
        """Is it certainly the copy that `x[mask]`, `x[[0, 2]]` or `x[indices]` makes?"""
        self.recomputed: Path | None = None
        """Of a weight that is computed at each reading: the path on which that holds."""
        self.restored: list[Restored] = []
        self.averaged: list[Write] = []
        """Of a model's parameter: writes that averaged its `state_dict()` in place, which another model has loaded."""
        self.averaged_read = False
        """Was the state of its own model read since then?"""
        self.overwritten: list[tuple[Tensor, Write]] = []
        """Tensors that were changed through a leaf made of them without a copy, and the writes that did it."""
        self.read: int | None = None
        """When an operation last read it; None if no rule asks for it."""
        self.refused = False
        """Has PyTorch refused a write to it? The program stops there."""

    def writes_since(self, time: int) -> list[Write]:
        """The writes after a moment, in order."""
        return self.writes[bisect_right(self.writes, time, key=attrgetter("time")) :]

    def replaced_since(self, time: int) -> bool:
        """Was it overwritten since, at least in part?"""
        return any(replaces(write.operation) for write in self.writes_since(time))


class Family:
    """A tensor and its views: they share one history. A detached alias shares the memory, not the family."""

    __slots__ = ("grad", "leaf", "node", "since", "sure")

    def __init__(self) -> None:
        self.node: Node | None = None
        """The node of the latest recorded write to any of them. All depend on it."""
        self.since = 0
        self.sure = True
        """Is that write certain? It is not if the written tensor may be a copy."""
        self.grad: bool | None = False
        """Does the base require grad?"""
        self.leaf: Tensor | None = None
        """The base, if it is a leaf that requires grad."""


@dataclass(frozen=True)
class Write:
    """One write of a storage."""

    time: int
    path: Path
    place: Place
    operation: str
    certain: bool
    tracked: bool = True
    """False for writes that do not change the version counter: `.data`, numpy, fused optimizers."""
    step: bool = False
    """Is it an update of parameters?"""
    target: str = ""
    group: Group = ()
    anchor: object | None = None
    """See `Tensor.anchor`."""
    region: Region | None = ()
    """Which part of the storage's first tensor it writes; None if not known."""
    moved: Tensor | None = None
    """Of `x.data = y`: the tensor that lies in other memory from then on. The old memory is unchanged."""
    placed: bool = False
    """Does it write a number at named places, `x[:, 0] = 1.0`? (Not at the places that a mask selects.)"""
    detached: bool = False
    """Is it made through a tensor that certainly has no graph? Autograd records nothing."""
    no_grad: bool = False
    """Is it made under `no_grad`, outside the forward of a Function?"""


@dataclass(frozen=True)
class Cut:
    """`x.data = y`, where y has a graph: x gets the values, but the leaves behind y get no gradient."""

    target: Tensor
    leaves: tuple[Tensor, ...]
    place: Place
    path: Path


@dataclass(frozen=True)
class Restored:
    """A moment at which a tensor got back the contents of an earlier moment."""

    time: int
    path: Path
    earlier: int


@dataclass(frozen=True)
class Save:
    """A storage that a node saves."""

    storage: Storage
    time: int
    saved_as: str
    certain: bool
    parameter: bool = False
    anchor: object | None = None
    """See `Tensor.anchor`; None also if it is not certain that the node saves it."""
    itself: Tensor | None = None
    """The tensor, if the node certainly saves that very object: no view of it, and not its own result."""

    @property
    def region(self) -> Region | None:
        """Which part of the storage's first tensor it is; None if not known."""
        return self.itself.region if self.itself is not None else () if self.saved_as == "result" else None


@dataclass(frozen=True)
class Block:
    """A run of a checkpointed function. Backward runs it again, and uses what it saves then."""

    begin: int
    end: int
    reentrant: bool | None
    """Does backward check versions? None if not known."""
    saves: dict[int, ast.AST]
    """The time and place of each save."""

    def is_spared(self, save: Save, write: Write) -> bool:
        """Is this save unharmed, because backward runs the function again before it needs it?"""
        if write.time > self.end:
            return True
        # A non-reentrant checkpoint stops after its last save, and compares contents, not versions.
        ended = not any(time > write.time and node is not write.place.node for time, node in self.saves.items())
        return self.reentrant is False and (ended or apart(write.region, save.region))


class Node:
    """One operation that autograd recorded."""

    __slots__ = (
        "assumed", "backward", "block", "group", "inputs", "leaves", "operation", "outputs", "partial", "path", "place",
        "refused", "saves", "time",
    )  # fmt: skip

    def __init__(self, operation: str, place: Place, time: int, path: Path, group: Group = ()) -> None:
        self.operation, self.place, self.time, self.path, self.group = operation, place, time, path, group
        self.inputs: list[Node] = []
        self.leaves: list[Tensor] = []
        self.saves: list[Save] = []
        self.outputs: list[Storage] = []
        self.backward: Callable[[], None] | None = None
        """Runs the backward of a custom Function."""
        self.block: Block | None = None
        self.assumed = ""
        """The hypothesis that it depends on (see `hypotheses`)."""
        self.refused = False
        """Is it a write that PyTorch refuses? The program stops there."""
        self.partial = False
        """Does it have an unknown argument, which may have a graph of its own?"""


@dataclass(frozen=True)
class Hit:
    """A write that breaks a backward. A rule turns it into a finding."""

    kind: str
    write: Write | None
    place: Place
    certain: bool
    node: Node | None = None
    save: Save | None = None
    detail: str = ""
    group: Group = ()
    """The group of the backward, or of the refused write."""
    order: StepFacts | None = None
    """The order of the training step, if parameters are updated before the backward."""
    hypothesis: str = ""
    """What must hold for it to break, if that is not known."""

    @classmethod
    def silent(cls, rule: SilentRule, write: Write | None, place: Place, certain: bool) -> Hit:
        """A hit of a silent rule."""
        return cls(rule.family, write, place, certain, detail=rule.name)


def exclude(one: Group, other: Group) -> bool:
    """Is a statement run on one of several values: in the one case on this, in the other on that?"""
    places = {number: place for number, place, _ in one}
    return any(places.get(number, place) != place for number, place, _ in other)


_MOST_ALIKE = 256


class Hits(list[Hit]):
    """The hits of a run. Of the hits of one statement so many are kept that the report about it is complete.

    A statement in a loop hits each operation that has saved the tensor, in each round, at each backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alike: dict[tuple[str, int, bool], int] = {}
        self._at: dict[int, int] = {}

    def append(self, hit: Hit) -> None:
        """Adds a hit, if there are not many like it."""
        at = id(hit.place.node)
        self._at[at] = self._at.get(at, 0) + 1
        alike = self._alike[hit.kind, at, hit.certain] = self._alike.get((hit.kind, at, hit.certain), 0) + 1
        if alike <= _MOST_ALIKE:
            super().append(hit)

    def stand_at(self, place: Place) -> bool:
        """Is there one at this place?"""
        return id(place.node) in self._at

    def are_enough_at(self, place: Place) -> bool:
        """Are there so many at this place that more would tell nothing new?"""
        return self._at.get(id(place.node), 0) > 4 * _MOST_ALIKE


def compatible(first: Path, *others: Path) -> bool:
    """Can all these lie on one path through the branches?"""
    paths = [path for path in others if path and path is not first]
    if not paths:
        return True
    taken = dict(first)
    for path in paths:
        for branch, arm in path:
            if taken.setdefault(branch, arm) != arm:
                return False
    return True
