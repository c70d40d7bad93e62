"""The tape of one run of the analysis: it notes every write, and finds what breaks when a backward comes.

A write hurts a node if it comes after the node saved the storage, on a path of branches that both can lie on. Nothing
is reported until a backward (or a return to unknown callers) needs the node.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outplace.knowledge.derivatives import passed_by, rescales
from outplace.knowledge.silent_rules.functions import CHECKPOINT_SAVED_WRITTEN, MISSING_MARK_DIRTY, TENSOR_KEPT_IN_CTX
from outplace.knowledge.silent_rules.gradients import SHARED_GRADIENT
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED, DETACHED_ALIAS_WRITTEN, NO_GRAD_WRITE_USED
from outplace.knowledge.silent_rules.two_names import RESCALED_AGAIN, STATE_DICT_WRITTEN
from outplace.knowledge.traits import has
from outplace.source.graph import (
    Cut,
    Group,
    Hit,
    Node,
    Path,
    Place,
    Restored,
    Save,
    Storage,
    Write,
    clock,
    compatible,
    exclude,
    replaces,
)
from outplace.source.heuristics import is_mask
from outplace.source.overlaps import Region, touches
from outplace.source.rescaled import again

if TYPE_CHECKING:
    from outplace.source.training_step import Event
    from outplace.source.values import Tensor


@dataclass
class Tape:
    """The books of one run of the interpreter."""

    path: Path = ()
    group: Group = ()
    hits: list[Hit] = field(default_factory=list)
    went_backward: bool = False
    """Has a backward been followed?"""
    losses: list[Node] = field(default_factory=list)
    """Where backwards have begun."""
    opaque: bool = False
    """Was there one that could not be followed?"""
    events: list[Event] = field(default_factory=list)
    """What was done to parameters and their gradients, in order."""
    cuts: list[Cut] = field(default_factory=list)
    undeclared: dict[int, Node] = field(default_factory=dict)
    """Writes of a Function's forward to its arguments without `ctx.mark_dirty`: by their time, the node."""
    mode: str = "on"
    """Does autograd record: "on", "off", "inference" or "unknown"?"""
    rounds: list[int] = field(default_factory=lambda: [0])
    """When the backwards began."""
    in_function: bool = False
    """Does the forward of a Function run?"""
    noticed_writes: list[tuple[Storage, Write]] | None = None
    """All writes, while a rule wants to know them."""

    def tick(self) -> int:
        """The next moment."""
        return next(clock)

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
        """Notes a write to a tensor's storage; `region` if it is only a part of the tensor."""
        sure = certain and tensor.certain
        tracked = tracked and not tensor.untracked
        anchor = tensor.anchor if certain else None
        part = region if region != () else tensor.region
        write = Write(
            self.tick(), self.path, place, operation, sure, tracked, step, target, self.group, anchor, part,
            tensor if moved else None, placed, tracked and tensor.requires_grad is False,
            self.mode == "off" and not self.in_function,
        )  # fmt: skip
        tensor.storage.writes.append(write)
        if self.noticed_writes is not None:
            self.noticed_writes.append((tensor.storage, write))
        return write

    def restore(self, tensor: Tensor, value: Tensor) -> None:
        """After `x.data = value`, or a copy of it into `x.data`: did x get its old contents back?"""
        storage, copied = tensor.storage, value.storage.copied
        alias = value.storage is storage and not any(w.time > value.since and w.moved is None for w in storage.writes)
        clone = copied is not None and copied[0] is storage and not value.storage.writes
        earlier = value.since if alias else copied[1] if clone and copied is not None else None
        if earlier is not None and tensor.certain and value.certain and tensor.region == value.region == ():
            storage.restored.append(Restored(self.tick(), self.path, earlier))

    def _is_undone(self, save: Save, write: Write) -> bool:
        """Did the tensor get back the saved contents after an untracked write?"""
        return not write.tracked and any(
            restored.time > write.time
            and all(arm in write.path or arm in self.path for arm in restored.path)
            and not any(_between(save.time, other.time, restored.earlier) for other in save.storage.writes)
            for restored in save.storage.restored
        )

    def _is_repeated(self, save: Save, write: Write) -> bool:
        """`self.weight.data *= self.mask` in every call of a layer: after the first, it changes nothing."""
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
        self.losses += roots
        self.opaque |= not roots
        self.backward(roots, inputs)
        reached = self.reached(roots)
        leaves = inputs if inputs is not None else [leaf for node in reached for leaf in node.leaves]
        owners: dict[int, Tensor] = {}
        for leaf in {id(leaf): leaf for leaf in leaves}.values():
            if leaf.has_grad and leaf.grad is not None:
                other = owners.setdefault(id(leaf.grad.storage), leaf)
                assigned = leaf.grad.assigned or (other.grad.assigned if other.grad is not None else None)
                if other is not leaf and assigned is not None:
                    self.hits.append(Hit.silent(SHARED_GRADIENT, None, assigned, True))
                self.write(leaf.grad, place, "backward")  # it adds to the gradient that is there
            leaf.has_grad = True
            for write in leaf.storage.averaged:
                if compatible(write.path, self.path):
                    self.hits.append(Hit.silent(STATE_DICT_WRITTEN, write, write.place, False))

    def backward(self, roots: Iterable[Node], inputs: list[Tensor] | None = None, certain: bool = True) -> None:
        """A backward from these nodes: every node on the way must find what it saved unchanged."""
        reached = self.reached(list(roots), inputs)
        unrecorded, really = _unrecorded(reached), set(map(id, self.reached(list(roots), inputs, past_refused=False)))
        for node in reached:
            self._check_saves(node, unrecorded, certain and id(node) in really)
            for storage in node.outputs:
                for write in storage.writes:
                    self._check_output(node, write, unrecorded, reached, certain)
        self._check_detached_writes(reached)
        self._check_no_grad_writes(reached)
        self.hits += [
            Hit.silent(RESCALED_AGAIN, write, write.place, False) for write in again(reached, self.rounds, self.path)
        ]
        self.rounds.append(self.tick())
        for node in reached:
            if node.backward is not None:
                node.backward()

    def _check_saves(self, node: Node, unrecorded: set[Place], certain: bool) -> None:
        """Is all that the node has saved unchanged?"""
        for save in node.saves:
            for write in save.storage.writes:
                later = write.time > save.time and compatible(write.path, node.path, self.path)
                later = later and not (write.group and node.group and exclude(write.group, node.group))
                if later and not self._is_undone(save, write) and not self._is_repeated(save, write):
                    self._hurt(node, save, write, certain, DATA_WRITE_USED.name if write.place in unrecorded else "")

    def _check_output(
        self, node: Node, write: Write, unrecorded: set[Place], reached: list[Node], certain: bool
    ) -> None:
        """Does a write to the node's result change values that autograd does not know of?"""
        if write.operation == "numpy" and write.time > node.time and compatible(write.path, self.path):
            self.hits.append(Hit("silent-alias", write, write.place, certain and write.certain, node))
        elif not write.tracked and write.place in unrecorded and compatible(write.path, node.path, self.path):
            self.hits.append(Hit.silent(DATA_WRITE_USED, write, write.place, False))
        elif write.time in self.undeclared and compatible(write.path, node.path, self.path):
            function = self.undeclared[write.time]
            if any(user.time > function.time and node in user.inputs for user in reached):
                self.hits.append(Hit.silent(MISSING_MARK_DIRTY, write, write.place, False))

    def _check_detached_writes(self, reached: list[Node]) -> None:
        """Writes through a detached alias, where PyTorch does not refuse them anyway."""
        reported = {hit.place for hit in self.hits}
        for write in _detached_writes(reached):
            if write.place not in reported and compatible(write.path, self.path):
                self.hits.append(Hit.silent(DETACHED_ALIAS_WRITTEN, write, write.place, False))

    def _check_no_grad_writes(self, reached: list[Node]) -> None:
        """Writes that rescale a node's result under `no_grad`, where PyTorch does not refuse the backward anyway."""
        reported = {hit.place for hit in self.hits}
        for node, write in _unsaved_writes(reached):
            differs = write.no_grad and write.tracked and not write.detached and _has_a_derivative(write)
            if differs and write.place not in reported and compatible(write.path, node.path, self.path):
                self.hits.append(Hit.silent(NO_GRAD_WRITE_USED, write, write.place, False))

    def _hurt(self, node: Node, save: Save, write: Write, certain: bool, detail: str) -> None:
        """A hit: the node needs what it saved, and the write has changed it. Some writes spare what was saved."""
        block = node.block if node.block is not None and save.storage.made > node.block.begin else None
        if _is_spared(save, write) or (block is not None and block.is_spared(save, write)):
            return
        kind = _kind(save, write)
        if save.saved_as == "ctx" and kind in ("saved", "stepped"):
            kind, detail = TENSOR_KEPT_IN_CTX.family, TENSOR_KEPT_IN_CTX.name
        if block is not None and kind == "saved" and block.reentrant is False:
            kind, detail = CHECKPOINT_SAVED_WRITTEN.family, CHECKPOINT_SAVED_WRITTEN.name
            certain = certain and touches(write.region, save.region) and None not in (write.region or ())
        sure = certain and _meet(node, save, write)
        self.hits.append(Hit(kind, write, write.place, sure, node, save, detail, self.group))
        if kind == "silent-data":
            # A value that is swapped and put back: the other half of the swap is part of the bug.
            for other in save.storage.writes:
                if not other.tracked and other is not write and other.place.function == write.place.function:
                    self.hits.append(Hit(kind, other, other.place, sure, node, save))

    def reached(self, roots: list[Node], inputs: list[Tensor] | None = None, past_refused: bool = True) -> list[Node]:
        """The nodes that a backward from these passes; `past_refused`: also those behind a refused write."""
        seen: dict[int, Node] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen[id(node)] = node
                stack.extend(node.inputs if past_refused or not node.refused else ())
        nodes = list(seen.values())
        return nodes if inputs is None else _leading_to(nodes, inputs)


def _is_spared(save: Save, write: Write) -> bool:
    """Does the write leave alone what was saved? `x.data = y` moves x only, and a node's own result may be detached."""
    if write.operation == "detach_":
        return save.saved_as == "result"
    return write.moved is not None and write.moved is not save.itself


def _kind(save: Save, write: Write) -> str:
    """The kind of bug that a write to a saved storage is."""
    if write.operation == "detach_":
        return "detached"
    if write.operation == "numpy":
        return "silent-alias"
    if not write.tracked:
        return "silent-data"
    return "stepped" if write.step or save.parameter else "saved"


def _meet(node: Node, save: Save, write: Write) -> bool:
    """Is it sure that both lie in one memory, and that the write comes only where the node has run?"""
    together = (save.certain and write.certain) or (save.anchor is not None and save.anchor is write.anchor)
    return together and all(arm in write.path for arm in node.path)


def _leading_to(nodes: list[Node], inputs: list[Tensor]) -> list[Node]:
    """The nodes from which one of the inputs can be reached."""
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
    """Places where the result of a node was changed through `.data` before it was used."""
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
    """Writes of a node's result through a detached alias."""
    return (write for _, write in _unsaved_writes(reached) if write.detached)


def _unsaved_writes(reached: list[Node]) -> Iterator[tuple[Node, Write]]:
    """Writes of a node's result before it was computed with, and after nobody had saved it."""
    for node in reached:
        for storage in node.outputs:
            for write in storage.writes:
                unseen = (write.detached or write.no_grad) and write.certain and write.time > node.time
                if not unseen or passed_by(write.operation) or write.operation == "detach_":
                    continue
                later = any(user.time > write.time and node in user.inputs for user in reached)
                saves = (save for user in reached for save in user.saves)
                if later and not any(save.storage is storage and save.time < write.time for save in saves):
                    yield node, write


def _has_a_derivative(write: Write) -> bool:
    """Is its derivative another one than that of a copy? `x.data[mask] *= 2`, `x.data[mask] = 0` as well."""
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
    """Does a second write of this kind change nothing?"""
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
