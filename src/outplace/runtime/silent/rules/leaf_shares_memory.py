"""A leaf shares memory with its source: `adv = images.detach().requires_grad_()`, which an optimizer then steps.

The optimizer then changes `images` as well. It is a bug if the function reads `images` later: such code expects two
tensors. Only an optimizer's first steps are examined, and only the tensors that the running functions have names for.
"""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.two_names import LEAF_SHARES_MEMORY
from outplace.knowledge.traits import reads_nothing
from outplace.model import Mutation
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.flow import read_later
from outplace.runtime.locate import names, sites
from outplace.runtime.patches.tensor_writes import where_leaf_was_made
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting
from outplace.runtime.silent.optimizers import Known

_MOST_LEAVES = 8
"""A model has more parameters than this. Data that is trained is one tensor or a few."""
_ALONE = 2
"""The references to the storage of a tensor that shares it with no other: the tensor, and the storage object."""


def _is_shared(leaf: torch.Tensor) -> bool:
    """Does another tensor share its memory?"""
    storage = leaf.untyped_storage()
    return bool(torch._C._storage_Use_Count(storage._cdata) > _ALONE)


def _made_of(frame: FrameType, leaves: list[Any]) -> Iterator[tuple[Any, str]]:
    """The leaves that a function made from a tensor it reads again, with the name of that tensor."""
    known = {name: value for name, value in frame.f_locals.items() if type(value) in PLAIN}
    pairs = [
        (leaf, own, other)
        for leaf in leaves
        for own, value in known.items()
        for other, original in known.items()
        if value is leaf and original is not leaf and not original.requires_grad and same_piece(original, leaf)
    ]
    standing = sites.statement_of(frame) if pairs else None
    if standing is None:
        return
    for leaf, own, other in pairs:
        if _is_made(*standing, own, other) and _is_read(*standing, other):
            yield leaf, other


def _is_made(code: Code, statement: ast.stmt, leaf: str, original: str) -> bool:
    """Does the function make one from the other? (`w = p.detach()` is meant to follow p.)"""
    assigned = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Assign)]
    values = [item.value for item in assigned if any(isinstance(to, ast.Name) and to.id == leaf for to in item.targets)]
    return any(isinstance(item, ast.Name) and item.id == original for value in values for item in ast.walk(value))


def _is_read(code: Code, statement: ast.stmt, name: str) -> bool:
    """Is it read after this statement, for more than its shape?"""
    if not read_later(code, statement, name):
        return False
    loops = code.loops(statement)
    first = loops[-1].lineno if loops else statement.lineno + 1
    loads = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Name) and node.id == name]
    later = [code.parents.get(node) for node in loads if isinstance(node.ctx, ast.Load) and node.lineno >= first]
    return any(not (isinstance(above, ast.Attribute) and reads_nothing(above.attr)) for above in later)


def _tell(optimizer: Any, leaf: torch.Tensor, name: str, frame: FrameType) -> None:
    place = (frame.f_code, frame.f_lasti)
    step = Mutation(f"{type(optimizer).__name__}.step", sites.at_instruction(place).site)
    reporting.tell(LEAF_SHARES_MEMORY, names.described(leaf, name), (step,), {"name": name})


def _frozen_twin(leaves: list[Any]) -> tuple[Any, str] | None:
    """A leaf that lies in the memory of a frozen parameter of the same network, with the name of that one.

    `Embedding.from_pretrained(vectors)` twice makes no copy. (A network of its own may be there to follow.)
    """
    modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
    for module in modules:
        for name, parameter in module._parameters.items():
            if type(parameter) is not torch.nn.Parameter or parameter.requires_grad:
                continue
            for leaf in leaves:
                both = {id(leaf), id(parameter)}
                if same_piece(parameter, leaf) and any(both <= set(map(id, root.parameters())) for root in modules):
                    return leaf, f"{type(module).__name__}.{name}"
    return None


def _owner_of(leaf: torch.Tensor, stepped: set[int]) -> str | None:
    """The name of a parameter of a module that lies in the same memory, and that no optimizer steps."""
    storage = storage_of(leaf)
    for module in gc.get_objects():
        if issubclass(type(module), torch.nn.Module):  # `isinstance` may run code of the object
            for name, parameter in module._parameters.items():
                if parameter is None or parameter is leaf or id(parameter) in stepped:
                    continue
                if storage_of(parameter) == storage:
                    return str(name)
    return None


class Detector(detector.Detector):
    """Looks for other names of the tensors that an optimizer steps."""

    def __init__(self) -> None:
        self._looks: Counter[Instruction] = Counter()
        """How often a leaf of each line was looked at. Finding the modules means a look at all objects."""

    def on_optimizer_step(self, known: Known, frame: FrameType) -> None:
        """Does another name reach the same memory, and is it read again?"""
        optimizer, parameters = known.optimizer(), known.parameters()
        self._look_at_parameters(known, parameters, frame)
        self._look_at_twins(known, parameters, frame)
        leaves = [parameter for parameter in parameters if type(parameter) in PLAIN and parameter.grad is not None]
        if not 0 < len(leaves) <= _MOST_LEAVES or not any(map(_is_shared, leaves)):
            return  # before reading any names: a frame that is asked for its names keeps their values alive
        frames = names.own_frames(None, frame)
        for own in frames:
            for leaf, name in _made_of(own, leaves):
                _tell(optimizer, leaf, name, frames[0])
                return

    def _look_at_parameters(self, known: Known, parameters: list[Any], frame: FrameType) -> None:
        """`nn.Parameter(layer.weight.data[:n])`: is it stepped, and the weight that it lies in is not?"""
        new_parameters = [item for item in parameters if type(item) is torch.nn.Parameter and item.grad is not None]
        shared = [item for item in new_parameters if _is_shared(item) and self._is_due(where_leaf_was_made(item))]
        if shared:
            stepped = {id(item) for other in self.optimizers for item in other.parameters()}
            for leaf in shared:
                name = _owner_of(leaf, stepped)
                frames = names.own_frames(None, frame)
                if name is not None and frames:
                    _tell(known.optimizer(), leaf, name, frames[0])
                    return

    def _look_at_twins(self, known: Known, parameters: list[Any], frame: FrameType) -> None:
        trained = [item for item in parameters if type(item) is torch.nn.Parameter and item.grad is not None]
        leaves = [item for item in trained if _is_shared(item) and where_leaf_was_made(item) is None]
        found = _frozen_twin(leaves[:_MOST_LEAVES]) if leaves and self._is_due((frame.f_code, frame.f_lasti)) else None
        frames = names.own_frames(None, frame) if found is not None else []
        if found is not None and frames:
            _tell(known.optimizer(), *found, frames[0])

    def _is_due(self, line: Instruction | None) -> bool:
        """Is a leaf that this line made to be looked at? It is at the 1st, 2nd, 4th time and so on."""
        if line is None:
            return False
        self._looks[line] += 1
        return self._looks[line] & (self._looks[line] - 1) == 0
