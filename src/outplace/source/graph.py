"""The autograd graph of the analysed program: storages, nodes, what each node saves, and every write.

Time is a counter. Each write and each node has a path: which arm of every undecided branch it lies on.
"""

from __future__ import annotations

import ast
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.traits import has
from outplace.source.overlaps import Region, apart

if TYPE_CHECKING:
    from outplace.source.project import Module
    from outplace.source.training_step import StepFacts
    from outplace.source.values import Tensor

Path = tuple[tuple[int, int], ...]
"""The arm that was taken at each undecided branch."""


Group = tuple[tuple[int, int, int], ...]
"""For a statement that was run on each of several values: the number of the run, the value's index, how many values."""


ARGUMENT = "argument"
"""The operation of a node for something that the caller has computed (see `hypotheses`)."""

clock = itertools.count(1)
"""One clock for all runs, so that a write in `__init__` is earlier than all saves in other methods."""


class Place(NamedTuple):
    """An expression or statement of a file, and the function that contains it."""

    module: Module
    node: ast.AST
    function: str


_REPLACING = frozenset(("out=", ".data =", "item assignment", "numpy", "zero_grad"))


def replaces(operation: str) -> bool:
    """True if the result of such a write does not depend on the old contents."""
    return operation in _REPLACING or has(operation, "replaces")


class Storage:
    """A piece of memory. All views and aliases of a tensor share it, and it has one version counter."""

    __slots__ = (
        "_looked_at", "_replaced", "averaged", "averaged_read", "copied", "is_index_copy", "made", "overwritten",
        "read", "recomputed", "refused", "restored", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.made = next(clock)
        self.writes: list[Write] = []
        self._looked_at, self._replaced = 0, 0
        self.copied: tuple[Storage, int] | None = None
        """For a clone: the storage it was copied from, and when."""
        self.is_index_copy = False
        """True if it is certainly the copy that `x[mask]`, `x[[0, 2]]` or `x[indices]` makes."""
        self.recomputed: Path | None = None
        """For a weight that is computed at each read: the path on which that holds."""
        self.restored: list[Restored] = []
        self.averaged: list[Write] = []
        """For a parameter: in-place averagings of its `state_dict()` that another model has loaded."""
        self.averaged_read = False
        """True if the state of its own model was read since then."""
        self.overwritten: list[tuple[Tensor, Write]] = []
        """Tensors that were changed through a leaf built on their memory, each with the write."""
        self.read: int | None = None
        """The time at which an operation last read it; None if no rule asks for it."""
        self.refused = False
        """True if PyTorch has refused a write to it. The program stops there."""

    def writes_since(self, time: int, end: float = math.inf) -> list[Write]:
        """Returns the writes after a time, in order; those until `end`."""
        start, stop = (bisect_right(self.writes, each, key=attrgetter("time")) for each in (time, end))
        return self.writes[start:stop]

    def replaced_since(self, time: int) -> bool:
        """True if it was overwritten since, at least in part."""
        for write in self.writes[self._looked_at :]:
            if replaces(write.operation):
                self._replaced = write.time
        self._looked_at = len(self.writes)
        return self._replaced > time


class Family:
    """A tensor and its views, which share one history. A detached alias shares the memory, but not the family."""

    __slots__ = ("grad", "leaf", "node", "since", "sure")

    def __init__(self) -> None:
        self.node: Node | None = None
        """The node of the latest recorded write to one of them. All of them depend on it."""
        self.since = 0
        self.sure = True
        """True if that write is certain. It is not if the written tensor may be a copy."""
        self.grad: bool | None = False
        """True if the base requires grad, None if not known."""
        self.leaf: Tensor | None = None
        """The base, if it is a leaf that requires grad."""


@dataclass(frozen=True)
class Write:
    """One write to a storage."""

    time: int
    path: Path
    place: Place
    operation: str
    certain: bool
    tracked: bool = True
    """False for writes that do not change the version counter: `.data`, numpy, fused optimizers."""
    step: bool = False
    """True if it updates parameters."""
    target: str = ""
    group: Group = ()
    anchor: object | None = None
    """See `Tensor.anchor`."""
    region: Region | None = ()
    """The part of the first tensor of the storage that it writes; None if not known."""
    moved: Tensor | None = None
    """For `x.data = y`: the tensor that moves to other memory. The old memory is unchanged."""
    placed: bool = False
    """True if it writes a number to given indices, `x[:, 0] = 1.0` (not where a mask selects)."""
    detached: bool = False
    """True if it goes through a tensor that certainly has no graph. Autograd records nothing."""
    no_grad: bool = False
    """True if it is made under `no_grad`, outside the forward of a Function."""


@dataclass(frozen=True)
class Cut:
    """`x.data = y`, where y has a graph. x gets the values, but the leaves behind y get no gradient."""

    target: Tensor
    leaves: tuple[Tensor, ...]
    place: Place
    path: Path


@dataclass(frozen=True)
class Restored:
    """The time at which a tensor got back the contents of an earlier time."""

    time: int
    path: Path
    earlier: int


@dataclass(frozen=True)
class Save:
    """A storage that a node has saved."""

    storage: Storage
    time: int
    saved_as: str
    certain: bool
    parameter: bool = False
    anchor: object | None = None
    """See `Tensor.anchor`. None also if the node does not certainly save it."""
    itself: Tensor | None = None
    """The tensor, if the node certainly saves this very object: no view of it, and not the node's own result."""

    @property
    def region(self) -> Region | None:
        """Returns the part of the first tensor of the storage that is saved; None if not known."""
        return self.itself.region if self.itself is not None else () if self.saved_as == "result" else None


@dataclass(frozen=True)
class Block:
    """One run of a checkpointed function. Backward runs it again, and uses what the second run saves."""

    begin: int
    end: int
    reentrant: bool | None
    """True if backward checks versions; None if not known."""
    saves: dict[int, ast.AST]
    """For each save, its time and its place."""

    def is_spared(self, save: Save, write: Write) -> bool:
        """True if the write does not harm the save, because backward runs the function again before it needs it."""
        if write.time > self.end:
            return True
        # A non-reentrant checkpoint stops after its last save, and compares contents, not versions.
        ended = not any(time > write.time and node is not write.place.node for time, node in self.saves.items())
        return self.reentrant is False and (ended or apart(write.region, save.region))


class Node:
    """One operation that autograd recorded."""

    __slots__ = (
        "assumed", "backward", "backwards", "block", "group", "inputs", "leaves", "operation", "outputs", "partial",
        "path", "place", "refused", "saves", "time",
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
        self.backwards = 0
        """How many backwards have reached it."""
        self.refused = False
        """True if it is a write that PyTorch refuses. The program stops there."""
        self.partial = False
        """True if it has an unknown argument, which may have a graph of its own."""


@dataclass(frozen=True)
class Hit:
    """A write that breaks a backward. `findings` turns it into a finding."""

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
    """The assumption under which it breaks, if that is not certain."""

    @classmethod
    def silent(cls, rule: SilentRule, write: Write | None, place: Place, certain: bool) -> Hit:
        """Makes a hit of a silent rule."""
        return cls(rule.family, write, place, certain, detail=rule.name)


def exclude(one: Group, other: Group) -> bool:
    """True if both belong to a statement that was run on several values, and their values differ."""
    places = {number: place for number, place, _ in one}
    return any(places.get(number, place) != place for number, place, _ in other)


_MOST_ALIKE = 256


class Hits(list[Hit]):
    """The hits of a run. For each statement enough hits are kept for a complete report.

    A statement in a loop hits each operation that has saved the tensor, in each iteration, at each backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alike: dict[tuple[str, int, bool], int] = {}
        self._at: dict[int, int] = {}

    def append(self, hit: Hit) -> None:
        """Adds a hit, unless there are many like it."""
        at = id(hit.place.node)
        self._at[at] = self._at.get(at, 0) + 1
        alike = self._alike[hit.kind, at, hit.certain] = self._alike.get((hit.kind, at, hit.certain), 0) + 1
        if alike <= _MOST_ALIKE:
            super().append(hit)

    def stand_at(self, place: Place) -> bool:
        """True if there is a hit at this place."""
        return id(place.node) in self._at

    def are_enough_at(self, place: Place) -> bool:
        """True if this place already has as many hits as a report can use."""
        return self._at.get(id(place.node), 0) > 4 * _MOST_ALIKE


def compatible(first: Path, *others: Path) -> bool:
    """True if all these can lie on one path through the branches."""
    paths = [path for path in others if path and path is not first]
    if not paths:
        return True
    taken = dict(first)
    for path in paths:
        for branch, arm in path:
            if taken.setdefault(branch, arm) != arm:
                return False
    return True
