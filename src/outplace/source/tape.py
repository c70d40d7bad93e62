"""Autograd's books, kept while source is read: storages, nodes, what each node saves, and every write in order.

Time is a counter. A write hurts a node if it comes after the node saved the storage, on a path of branches that both
can lie on. Nothing is reported until a backward (or a return to unknown callers) needs the node.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outplace.knowledge.derivatives import passed_by, rescales
from outplace.knowledge.kind import SilentRule
from outplace.knowledge.silent_rules.functions import CHECKPOINT_SAVED_WRITTEN, MISSING_MARK_DIRTY, TENSOR_KEPT_IN_CTX
from outplace.knowledge.silent_rules.gradients import SHARED_GRADIENT
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED, DETACHED_ALIAS_WRITTEN
from outplace.knowledge.silent_rules.two_names import STATE_DICT_WRITTEN
from outplace.knowledge.traits import has
from outplace.source.heuristics import is_mask
from outplace.source.overlaps import Region, apart, touches

if TYPE_CHECKING:
    from outplace.source.project import Module
    from outplace.source.training_step import Event, StepFacts
    from outplace.source.values import Tensor

Path = tuple[tuple[int, int], ...]
"""Which arm was taken at each undecided branch."""


Group = tuple[tuple[int, int, int], ...]
"""Which of several values a statement was run on: a number for the run, which one, and of how many."""


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
        "copied",
        "gathered",
        "lent",
        "lent_read",
        "made",
        "overwritten",
        "read",
        "refused",
        "remade",
        "restored",
        "writes",
    )

    def __init__(self) -> None:
        self.made = next(_clock)
        self.writes: list[Write] = []
        self.copied: tuple[Storage, int] | None = None
        """Of a clone: what it was copied from, and when."""
        self.gathered = False
        """Was it surely copied by an index that is a mask, a list or a tensor?"""
        self.remade: Path | None = None
        """Of a weight that is computed, and only for who has just read it: the way on which it is."""
        self.restored: list[Restored] = []
        self.lent: list[Write] = []
        """Of a model's parameter: writes to its `state_dict()`, which another model has loaded."""
        self.lent_read = False
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


_clock = itertools.count(1)
"""One clock for all runs: what a module's `__init__` wrote lies before whatever its methods save."""


@dataclass
class Tape:
    """The books of one run of the interpreter."""

    path: Path = ()
    group: Group = ()
    hits: list[Hit] = field(default_factory=list)
    went_backward: bool = False
    """Has a backward been followed?"""
    opaque: bool = False
    """Has there been one that could not be?"""
    events: list[Event] = field(default_factory=list)
    """What has been done to parameters and their gradients, in order."""
    cuts: list[Cut] = field(default_factory=list)
    undeclared: dict[int, Node] = field(default_factory=dict)
    """By their time, writes of a Function's forward to what it was given, without `ctx.mark_dirty`, and its node."""
    noted: list[tuple[Storage, Write]] | None = None
    """All writes, while somebody wants to know them."""

    def tick(self) -> int:
        """The next moment."""
        return next(_clock)

    def write(
        self,
        tensor: Tensor,
        place: Place,
        operation: str,
        *,
        tracked: bool = True,
        step: bool = False,
        certain: bool = True,
        target: str = "",
        region: Region | None = (),
        moved: bool = False,
        placed: bool = False,
    ) -> Write:
        """Notes a write to a tensor's storage; `region` where it is only a part of the tensor."""
        sure = certain and tensor.certain
        tracked = tracked and not tensor.untracked
        anchor = tensor.anchor if certain else None
        part = region if region != () else tensor.region
        write = Write(
            self.tick(), self.path, place, operation, sure, tracked, step, target, self.group, anchor, part,
            tensor if moved else None, placed, tracked and tensor.requires_grad is False,
        )  # fmt: skip
        tensor.storage.writes.append(write)
        if self.noted is not None:
            self.noted.append((tensor.storage, write))
        return write

    def restore(self, tensor: Tensor, value: Tensor) -> None:
        """After `x.data = value`, or a copy of it into `x.data`: is it what x held before?"""
        storage, copied = tensor.storage, value.storage.copied
        alias = value.storage is storage and not any(w.time > value.since and w.moved is None for w in storage.writes)
        clone = copied is not None and copied[0] is storage and not value.storage.writes
        earlier = value.since if alias else copied[1] if clone and copied is not None else None
        if earlier is not None and tensor.certain and value.certain and tensor.region == value.region == ():
            storage.restored.append(Restored(self.tick(), self.path, earlier))

    def _is_undone(self, save: Save, write: Write) -> bool:
        """Has the tensor got back what was saved since a write that moved no version?"""
        return not write.tracked and any(
            restored.time > write.time
            and all(arm in write.path or arm in self.path for arm in restored.path)
            and not any(_between(save.time, other.time, restored.earlier) for other in save.storage.writes)
            for restored in save.storage.restored
        )

    def _is_repeated(self, save: Save, write: Write) -> bool:
        """`self.weight.data *= self.mask` in every call of a layer: from the second on it changes nothing."""
        if write.tracked or not _changes_once(write):
            return False
        others = save.storage.writes
        earlier = max((other.time for other in others if other.time < save.time), default=None)
        return earlier is not None and all(
            other.place == write.place for other in others if earlier <= other.time <= write.time
        )

    def accumulate(self, roots: list[Node], place: Place, inputs: list[Tensor] | None = None) -> None:
        """`loss.backward()`: a backward that leaves gradients with the leaves."""
        self.went_backward |= bool(roots)
        self.opaque |= not roots
        self.backward(roots, inputs)
        reached = self.reached(roots)
        leaves = inputs if inputs is not None else [leaf for node in reached for leaf in node.leaves]
        owners: dict[int, Tensor] = {}
        for leaf in {id(leaf): leaf for leaf in leaves}.values():
            if leaf.graded and leaf.grad is not None:
                other = owners.setdefault(id(leaf.grad.storage), leaf)
                assigned = leaf.grad.assigned or (other.grad.assigned if other.grad is not None else None)
                if other is not leaf and assigned is not None:
                    self.hits.append(Hit.silent(SHARED_GRADIENT, None, assigned, True))
                self.write(leaf.grad, place, "backward")  # it adds to the gradient that is there
            leaf.graded = True
            for write in leaf.storage.lent:
                if compatible(write.path, self.path):
                    self.hits.append(Hit.silent(STATE_DICT_WRITTEN, write, write.place, False))

    def backward(self, roots: Iterable[Node], inputs: list[Tensor] | None = None, certain: bool = True) -> None:
        """A backward from these nodes: every node on the way must find what it saved unchanged."""
        functions: list[Callable[[], None]] = []
        reached = self.reached(list(roots), inputs)
        unrecorded, really = _unrecorded(reached), set(map(id, self.reached(list(roots), inputs, past_refused=False)))
        for node in reached:
            sure = certain and id(node) in really
            if node.backward is not None:
                functions.append(node.backward)
            for save in node.saves:
                for write in save.storage.writes:
                    later = write.time > save.time and compatible(write.path, node.path, self.path)
                    if later and not self._is_undone(save, write) and not self._is_repeated(save, write):
                        self._hurt(node, save, write, sure, DATA_WRITE_USED.name if write.place in unrecorded else "")
            for storage in node.outputs:
                for write in storage.writes:
                    if write.operation == "numpy" and write.time > node.time and compatible(write.path, self.path):
                        self.hits.append(Hit("silent-alias", write, write.place, certain and write.certain, node))
                    elif (
                        not write.tracked and write.place in unrecorded and compatible(write.path, node.path, self.path)
                    ):
                        self.hits.append(Hit.silent(DATA_WRITE_USED, write, write.place, False))
                    elif write.time in self.undeclared and compatible(write.path, node.path, self.path):
                        function = self.undeclared[write.time]
                        if any(user.time > function.time and node in user.inputs for user in reached):
                            self.hits.append(Hit.silent(MISSING_MARK_DIRTY, write, write.place, False))
        told = {hit.place for hit in self.hits}  # PyTorch refuses some of these writes
        for write in _detached_writes(reached):
            if write.place not in told and compatible(write.path, self.path):
                self.hits.append(Hit.silent(DETACHED_ALIAS_WRITTEN, write, write.place, False))
        for run in functions:
            run()

    def _hurt(self, node: Node, save: Save, write: Write, certain: bool, detail: str) -> None:
        if write.moved is not None and write.moved is not save.itself:
            return
        block = node.block if node.block is not None and save.storage.made > node.block.begin else None
        if block is not None and block.is_spared(save, write):
            return
        kind = "saved" if write.tracked else "silent-data"
        if write.tracked and (write.step or save.parameter):
            kind = "stepped"
        if write.operation == "numpy":
            kind = "silent-alias"
        if write.operation == "detach_":
            if save.saved_as == "result":
                return  # a node's own result may be detached
            kind = "detached"
        if save.saved_as == "ctx" and kind in ("saved", "stepped"):
            kind, detail = TENSOR_KEPT_IN_CTX.family, TENSOR_KEPT_IN_CTX.name
        if block is not None and kind == "saved" and block.reentrant is False:
            kind, detail = CHECKPOINT_SAVED_WRITTEN.family, CHECKPOINT_SAVED_WRITTEN.name
            certain = certain and touches(write.region, save.region) and None not in (write.region or ())
        implied = all(arm in write.path for arm in node.path)
        together = (save.certain and write.certain) or (save.anchor is not None and save.anchor is write.anchor)
        sure = certain and together and implied
        self.hits.append(Hit(kind, write, write.place, sure, node, save, detail, self.group))
        if kind == "silent-data":
            # A value that is swapped and put back: the other half of the swap is part of the bug.
            for other in save.storage.writes:
                if not other.tracked and other is not write and other.place.function == write.place.function:
                    self.hits.append(Hit(kind, other, other.place, sure, node, save))

    def reached(self, roots: list[Node], inputs: list[Tensor] | None = None, past_refused: bool = True) -> list[Node]:
        """The nodes that a backward from these goes through; those behind a refused write too, if it were mended."""
        seen: dict[int, Node] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen[id(node)] = node
                stack.extend(node.inputs if past_refused or not node.refused else ())
        nodes = list(seen.values())
        return nodes if inputs is None else _leading_to(nodes, inputs)


def _leading_to(nodes: list[Node], inputs: list[Tensor]) -> list[Node]:
    """Those nodes from which one of the inputs can be reached."""
    wanted_leaves = {id(tensor) for tensor in inputs}
    wanted_nodes = {id(tensor.node) for tensor in inputs if tensor.node is not None}
    needed = {id(n) for n in nodes if id(n) in wanted_nodes or any(id(leaf) in wanted_leaves for leaf in n.leaves)}
    users: dict[int, list[Node]] = {}
    for node in nodes:
        for before in node.inputs:
            users.setdefault(id(before), []).append(node)
    stack = list(needed)
    while stack:
        for user in users.get(stack.pop(), ()):
            if id(user) not in needed:
                needed.add(id(user))
                stack.append(id(user))
    return [node for node in nodes if id(node) in needed]


def _unrecorded(reached: list[Node]) -> set[Place]:
    """Where the result of a node was changed through `.data`, before it was computed with."""
    return {
        write.place
        for node in reached
        for storage in node.outputs
        if not any(passed_by(write.operation) for write in storage.writes if not write.tracked)
        for write in storage.writes
        if not write.tracked and _has_a_derivative(write) and write.time > node.time and write.certain
        if any(user.time > write.time and node in user.inputs for user in reached)
    }


def _detached_writes(reached: list[Node]) -> Iterator[Write]:
    """Writes of a node's result through a detached alias, before it was computed with and after nobody had saved it."""
    for node in reached:
        for storage in node.outputs:
            for write in storage.writes:
                unseen = write.detached and write.certain and write.time > node.time
                if not unseen or passed_by(write.operation) or write.operation == "detach_":
                    continue
                later = any(user.time > write.time and node in user.inputs for user in reached)
                saves = (save for user in reached for save in user.saves)
                if later and not any(save.storage is storage and save.time < write.time for save in saves):
                    yield write


def _has_a_derivative(write: Write) -> bool:
    """Does a gradient pass it otherwise than a copy? `x.data[mask] *= 2`, `x.data[mask] = 0` as well."""
    statement = write.place.node
    if write.operation != "item assignment":
        return rescales(write.operation)
    if write.placed:
        return True
    if isinstance(statement, ast.AugAssign):
        return not isinstance(statement.op, ast.Add | ast.Sub)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value == 0


def _changes_once(write: Write) -> bool:
    """Does the same write, made again, leave everything as it is?"""
    node = write.place.node
    if isinstance(node, ast.AugAssign):  # of `x.data`, whose second half is that it is assigned
        factor = node.value if isinstance(node.op, ast.Mult) else None
    else:
        call = node.value if isinstance(node, ast.Expr) else node
        factor = call.args[0] if write.operation == "mul_" and isinstance(call, ast.Call) and call.args else None
    settles = has(write.operation, "settles") and not replaces(write.operation)
    return settles or (factor is not None and is_mask(factor))


def _between(one: int, time: int, other: int) -> bool:
    return min(one, other) < time < max(one, other)


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
