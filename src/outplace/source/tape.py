"""The tape of one run of the analysis: it records every write, and finds what breaks when a backward comes.

A write harms a node if it comes after the node saved the storage, and both can lie on one path of branches. Nothing
is reported until a backward (or a return to unknown callers) needs the node.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
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
    Hits,
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
from outplace.source.rescaled import rescaling_writes
from outplace.source.training_step import Events

if TYPE_CHECKING:
    from outplace.source.values import Tensor


_MOST_SWAPS = 8
_MOST_BACKWARDS = 64
"""So many backwards are followed through one node. Else hundreds over a kept graph would take quadratic time."""
_MOST_WRITES = 256
"""So many of the latest writes to the result of a node are looked at, at each backward."""


@dataclass
class Tape:
    """The record of one run of the interpreter."""

    path: Path = ()
    group: Group = ()
    require_time: Callable[[], None] = lambda: None
    """Ends the run if its time is over. It is called in loops over nodes."""
    hits: Hits = field(default_factory=Hits)
    went_backward: bool = False
    """True if a backward was followed."""
    losses: list[Node] = field(default_factory=list)
    """The nodes from which backwards have started."""
    is_cut: bool = False
    """True if a backward was not followed to its end, because many have come that way."""
    opaque: bool = False
    """True if there was a backward that could not be followed."""
    events: Events = field(default_factory=Events)
    """The events of the training step: what was done to parameters and their gradients, in order."""
    cuts: list[Cut] = field(default_factory=list)
    undeclared: dict[int, Node] = field(default_factory=dict)
    """Writes of a Function's forward to its arguments without `ctx.mark_dirty`: the time of the write, and the node."""
    mode: str = "on"
    """The grad mode: "on", "off", "inference" or "unknown"."""
    rounds: list[int] = field(default_factory=lambda: [0])
    """The times at which the backwards started."""
    in_function: bool = False
    """True while the forward of a custom Function runs."""
    noticed_writes: list[tuple[Storage, Write]] | None = None
    """All writes, while a rule collects them."""
    began: int = 0
    """The time at which the function that is checked was called."""
    given: set[Storage] = field(default_factory=set)
    """The memory of what the function was given, as far as it is only looked at later."""
    own_writes: set[ast.AST] = field(default_factory=set)
    """The statements that wrote only what the function has made itself."""
    given_writes: set[ast.AST] = field(default_factory=set)
    """The statements that wrote what it was given, or what it holds for longer."""

    _met: dict[tuple[int, bool, Path, Group], int] = field(default_factory=dict)
    """For each save and the path of a backward: the time of the last write that a backward has met there."""
    _swapped: dict[tuple[int, str, bool], tuple[int, int]] = field(default_factory=dict)
    """For each storage, function and certainty: for how many saves its swaps were told, and the last write's time."""

    def tick(self) -> int:
        """Advances the clock and returns the new time."""
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
        """Records a write to the storage of a tensor. `region` is given if it writes only a part of the tensor."""
        sure = certain and tensor.certain
        tracked = tracked and not tensor.untracked
        anchor = tensor.anchor if certain else None
        part = region if region != () else tensor.region
        write = Write(
            self.tick(), self.path, place, operation, sure, tracked, step, target, self.group, anchor, part,
            tensor if moved else None, placed, tracked and tensor.requires_grad is False,
            self.mode == "off" and not self.in_function,
        )  # fmt: skip
        storage = tensor.storage
        storage.writes.append(write)
        is_given = step or tensor.parameter or storage.made <= self.began or storage in self.given
        (self.given_writes if is_given else self.own_writes).add(place.node)
        if self.noticed_writes is not None:
            self.noticed_writes.append((storage, write))
        return write

    def restore(self, tensor: Tensor, value: Tensor) -> None:
        """Records that x got back earlier contents, if `x.data = value`, or a copy into `x.data`, puts them back."""
        storage, copied = tensor.storage, value.storage.copied
        alias = value.storage is storage and not any(w.time > value.since and w.moved is None for w in storage.writes)
        clone = copied is not None and copied[0] is storage and not value.storage.writes
        earlier = value.since if alias else copied[1] if clone and copied is not None else None
        if earlier is not None and tensor.certain and value.certain and tensor.region == value.region == ():
            storage.restored.append(Restored(self.tick(), self.path, earlier))

    def _is_undone(self, save: Save, write: Write) -> bool:
        """True if the tensor got back the saved contents after an untracked write."""
        return not write.tracked and any(
            restored.time > write.time
            and all(arm in write.path or arm in self.path for arm in restored.path)
            and not any(_between(save.time, other.time, restored.earlier) for other in save.storage.writes)
            for restored in save.storage.restored
        )

    def _is_repeated(self, save: Save, write: Write) -> bool:
        """True if the write has happened before and changes nothing again, such as `self.weight.data *= self.mask`."""
        if write.tracked or not _changes_once(write):
            return False
        since = save.storage.writes_since(save.time)
        before = len(save.storage.writes) - len(since) - 1
        if before < 0 or save.storage.writes[before].place != write.place:
            return False
        return all(other.place == write.place for other in since if other.time <= write.time)

    def accumulate(self, roots: list[Node], place: Place, inputs: list[Tensor] | None = None) -> None:
        """Runs `loss.backward()`, which leaves gradients in the leaves."""
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
                if other is not leaf and assigned is not None and _are_one(leaf.grad, other.grad):
                    self.hits.append(Hit.silent(SHARED_GRADIENT, None, assigned, True))
                self.write(leaf.grad, place, "backward")  # it adds to the existing gradient
            leaf.has_grad = True
            for write in leaf.storage.averaged:
                if compatible(write.path, self.path):
                    self.hits.append(Hit.silent(STATE_DICT_WRITTEN, write, write.place, False))

    def backward(self, roots: Iterable[Node], inputs: list[Tensor] | None = None, certain: bool = True) -> None:
        """Runs a backward from these nodes. Each node that it reaches must find unchanged what it has saved."""
        reached = self.reached(list(roots), inputs)
        really = set(map(id, self.reached(list(roots), inputs, past_refused=False)))
        uses = _last_use_times(reached)
        unrecorded = _unrecorded_statements(reached, uses)
        for node in reached:
            self.require_time()
            self._check_saves(node, unrecorded, certain and id(node) in really)
            for storage in node.outputs:
                for write in storage.writes[-_MOST_WRITES:]:
                    self._check_output(node, write, unrecorded, uses, certain)
        self._check_unsaved_writes(reached, uses)
        for write in rescaling_writes(reached, self.rounds, self.path):
            self.hits.append(Hit.silent(RESCALED_AGAIN, write, write.place, False))
        self.rounds.append(self.tick())
        for node in reached:
            node.backwards += 1
            if node.backward is not None:
                node.backward()

    def _check_saves(self, node: Node, unrecorded: set[int], certain: bool) -> None:
        """Checks that everything the node has saved is unchanged. An earlier backward has met the earlier writes."""
        for save in node.saves:
            swaps: set[tuple[str, bool]] = set()
            met = (id(save), certain, self.path, self.group)
            since = max(save.time, self._met.get(met, 0))
            writes = save.storage.writes_since(since)
            if writes:
                self._met[met] = writes[-1].time
            for write in writes:
                if self.hits.are_enough_at(write.place) or not compatible(write.path, node.path, self.path):
                    continue
                if write.group and node.group and exclude(write.group, node.group):
                    continue
                if not self._is_undone(save, write) and not self._is_repeated(save, write):
                    detail = DATA_WRITE_USED.name if id(write.place.node) in unrecorded else ""
                    hit = self._add_hit(node, save, write, certain, detail)
                    if hit is not None and hit.kind == "silent-data":
                        swaps.add((write.place.function, hit.certain))
            # A value is swapped and put back: the other half of the swap is a part of the bug.
            for function, sure in swaps:
                for write in self._not_yet_reported(save.storage, function, sure):
                    if not self.hits.are_enough_at(write.place):
                        self.hits.append(Hit("silent-data", write, write.place, sure, node, save))

    def _not_yet_reported(self, storage: Storage, function: str, certain: bool) -> list[Write]:
        """The untracked writes of a function to a storage: all for the first saves, then those that are new."""
        count, since = self._swapped.get((id(storage), function, certain), (0, 0))
        writes = storage.writes if count < _MOST_SWAPS else storage.writes_since(since)
        if writes:
            self._swapped[id(storage), function, certain] = count + 1, writes[-1].time
        return [write for write in writes if not write.tracked and write.place.function == function]

    def _check_output(
        self, node: Node, write: Write, unrecorded: set[int], uses: dict[int, int], certain: bool
    ) -> None:
        """Checks whether a write to the result of the node changes values without autograd's knowledge."""
        if write.operation == "numpy" and write.time > node.time and compatible(write.path, self.path):
            self.hits.append(Hit("silent-alias", write, write.place, certain and write.certain, node))
        elif not write.tracked and id(write.place.node) in unrecorded and compatible(write.path, node.path, self.path):
            self.hits.append(Hit.silent(DATA_WRITE_USED, write, write.place, False))
        elif write.time in self.undeclared and compatible(write.path, node.path, self.path):
            function = self.undeclared[write.time]
            if uses.get(id(node), 0) > function.time:
                self.hits.append(Hit.silent(MISSING_MARK_DIRTY, write, write.place, False))

    def _check_unsaved_writes(self, reached: list[Node], uses: dict[int, int]) -> None:
        """Checks writes through a detached alias, and writes under `no_grad` that rescale the result of a node.

        PyTorch refuses none of them. If it refuses the backward for another reason, that reason is reported.
        """
        unsaved = [pair for pair in _unsaved_writes(reached, uses) if not self.hits.stand_at(pair[1].place)]
        for _, write in unsaved:
            if write.detached and compatible(write.path, self.path):
                self.hits.append(Hit.silent(DETACHED_ALIAS_WRITTEN, write, write.place, False))
        for node, write in [pair for pair in unsaved if not self.hits.stand_at(pair[1].place)]:
            differs = write.no_grad and write.tracked and not write.detached and _needs_a_derivative(write)
            if differs and compatible(write.path, node.path, self.path):
                self.hits.append(Hit.silent(NO_GRAD_WRITE_USED, write, write.place, False))

    def _add_hit(self, node: Node, save: Save, write: Write, certain: bool, detail: str) -> Hit | None:
        """Adds a hit if the write has changed what the node saved. Some writes leave it unchanged."""
        block = node.block if node.block is not None and save.storage.made > node.block.begin else None
        if _leaves_unchanged(save, write) or (block is not None and block.is_spared(save, write)):
            return None
        kind = _kind(save, write)
        if save.saved_as == "ctx" and kind in ("saved", "stepped"):
            kind, detail = TENSOR_KEPT_IN_CTX.family, TENSOR_KEPT_IN_CTX.name
        if block is not None and kind == "saved" and block.reentrant is False:
            kind, detail = CHECKPOINT_SAVED_WRITTEN.family, CHECKPOINT_SAVED_WRITTEN.name
            certain = certain and touches(write.region, save.region) and None not in (write.region or ())
        sure = certain and _certainly_meet(node, save, write)
        hit = Hit(kind, write, write.place, sure, node, save, detail, self.group)
        self.hits.append(hit)
        return hit

    def reached(self, roots: list[Node], inputs: list[Tensor] | None = None, past_refused: bool = True) -> list[Node]:
        """Returns the nodes that a backward reaches. `past_refused`: also those behind a refused write."""
        seen: dict[int, Node] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen[id(node)] = node
            if node.backwards >= _MOST_BACKWARDS:
                self.is_cut |= bool(node.inputs)
            elif past_refused or not node.refused:
                stack.extend(node.inputs)
        nodes = list(seen.values())
        return nodes if inputs is None else _leading_to(nodes, inputs)


def _leaves_unchanged(save: Save, write: Write) -> bool:
    """True if the write does not change what was saved. `x.data = y` only moves x; a saved result may be detached."""
    if write.operation == "detach_":
        return save.saved_as == "result"
    return write.moved is not None and write.moved is not save.itself


def _kind(save: Save, write: Write) -> str:
    """Returns the kind of bug that a write to a saved storage is."""
    if write.operation == "detach_":
        return "detached"
    if write.operation == "numpy":
        return "silent-alias"
    if not write.tracked:
        return "silent-data"
    return "stepped" if write.step or save.parameter else "saved"


def _certainly_meet(node: Node, save: Save, write: Write) -> bool:
    """True if both certainly lie in one memory, and the write happens only if the node has run."""
    together = (save.certain and write.certain) or (save.anchor is not None and save.anchor is write.anchor)
    return together and (not node.path or set(node.path) <= set(write.path))


def _leading_to(nodes: list[Node], inputs: list[Tensor]) -> list[Node]:
    """Returns the nodes from which one of the inputs can be reached."""
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


def _last_use_times(reached: list[Node]) -> dict[int, int]:
    """Returns, for each node, the time at which its result was last used."""
    uses: dict[int, int] = {}
    for user in reached:
        for node in user.inputs:
            uses[id(node)] = max(uses.get(id(node), 0), user.time)
    return uses


def _unrecorded_statements(reached: list[Node], uses: dict[int, int]) -> set[int]:
    """Returns the statements that have changed the result of a node through `.data` before it was used."""
    return {
        id(write.place.node)
        for node in reached
        for storage in node.outputs
        if not any(passed_by(write.operation) for write in storage.writes[-_MOST_WRITES:] if not write.tracked)
        for write in storage.writes_since(node.time)[-_MOST_WRITES:]
        if not write.tracked and _needs_a_derivative(write) and write.certain and uses.get(id(node), 0) > write.time
    }


def _unsaved_writes(reached: list[Node], uses: dict[int, int]) -> Iterator[tuple[Node, Write]]:
    """Yields the writes to the result of a node that come before a use of it, and before any node saves it."""
    saved: dict[int, int] = {}
    for save in (save for user in reached for save in user.saves):
        saved[id(save.storage)] = min(saved.get(id(save.storage), save.time), save.time)
    for node in reached:
        for storage in node.outputs:
            ends = min(saved.get(id(storage), math.inf), uses.get(id(node), 0) - 1)
            for write in storage.writes_since(node.time, ends)[-_MOST_WRITES:] if ends > node.time else ():
                unseen = (write.detached or write.no_grad) and write.certain
                if unseen and not passed_by(write.operation) and write.operation != "detach_":
                    yield node, write


def _needs_a_derivative(write: Write) -> bool:
    """True if its derivative is not that of a copy, such as `x.data[mask] *= 2`; also for `x.data[mask] = 0`."""
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
    """True if a second write of this kind changes nothing."""
    node = write.place.node
    if isinstance(node, ast.AugAssign):  # of `x.data`: it is also an assignment to `x.data`
        factor = node.value if isinstance(node.op, ast.Mult) else None
    else:
        call = node.value if isinstance(node, ast.Expr) else node
        factor = call.args[0] if write.operation == "mul_" and isinstance(call, ast.Call) and call.args else None
    settles = has(write.operation, "settles") and not replaces(write.operation)
    return settles or (factor is not None and is_mask(factor))


def _are_one(gradient: Tensor, other: Tensor | None) -> bool:
    """Is one gradient certainly the other, not another part of the same memory?"""
    return other is not None and (gradient is other or gradient.region == other.region == ())


def _between(one: int, time: int, other: int) -> bool:
    return min(one, other) < time < max(one, other)
