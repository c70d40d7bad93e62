"""Memory that a holder pointed to before a repair gives it a new tensor (see `rebinding`)."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

from outplace.source.graph import Path, Storage, compatible
from outplace.source.joins import options
from outplace.source.overlaps import apart
from outplace.source.torch_model.regions import are_other_parts
from outplace.source.values import Class, Dictionary, Function, Instance, Items, Tensor, Value


@dataclass(frozen=True)
class LeftBehind:
    """Memory that a holder pointed to before the statement, and the part of it that is written there."""

    tensor: Tensor
    path: Path
    time: int
    copy: Tensor
    backwards: int = 0
    """How many backwards had run then?"""
    in_graph: bool = False
    """Has the graph of the next backward been built with it?"""

    def is_written(self) -> bool:
        """Has it been written since?"""
        later = [write for write in self.tensor.storage.writes if write.time > self.time]
        return any(
            compatible(write.path, self.path) and not apart(self.tensor.region, write.region, 1) for write in later
        )

    def is_seen_in(self, tensor: Tensor) -> bool:
        """May this tensor show the part?"""
        same = tensor.storage is self.tensor.storage
        return same and not (apart(self.tensor.region, tensor.region, 1) or are_other_parts(self.tensor, tensor))

    def attributes_of(self, name: str, value: Value) -> list[str]:
        """`self.h`, where that is what holds the memory."""
        owners = [option for option in options(value) if isinstance(option, Instance)]
        kept = [(attribute, value) for owner in owners for attribute, value in owner.names.items()]
        held = [(attribute, option) for attribute, value in kept for option in options(value)]
        tensors = [(attribute, option) for attribute, option in held if isinstance(option, Tensor)]
        return [f"{name}.{attribute}" for attribute, tensor in tensors if self.is_seen_in(tensor)]


def is_fixed(owners: Iterable[Value], attribute: str | None) -> bool:
    """Does Python refuse to set it: an item of a tuple, a field of a frozen object, a property?"""
    owners = list(owners)
    if any(isinstance(owner, Items) and owner.kind == "tuple" for owner in owners):
        return True
    classes = [owner.cls for owner in owners if isinstance(owner, Instance)]
    if any(isinstance(cls, Class) and cls.frozen for owner in classes for cls in owner.lineage()):
        return True
    found = [cls.find(attribute) for cls in classes] if attribute is not None else []
    return any(isinstance(item, Function) and item.kind in ("property", "cached_property") for item in found)


def is_buffer(owners: Iterable[Value], attribute: str | None) -> bool:
    """Is it a buffer of a module? Others may look it up there."""
    tables = [owner.names.get("__buffers__") for owner in owners if isinstance(owner, Instance)]
    return any(isinstance(table, Dictionary) and attribute in table.items for table in tables)


def copy_of(tensor: Tensor) -> Tensor:
    """The same tensor in memory of its own."""
    new = copy.copy(tensor)
    new.storage, new.family, new.region, new.parts = Storage(), copy.copy(tensor.family), (), ()
    new.parameter = new.held = False
    return new


def is_parameter(tensor: Tensor) -> bool:
    """Is it a parameter, a tensor that an optimizer steps, or a view of one?"""
    leaf = tensor.family.leaf or tensor
    return any(item.parameter or item.held for item in (tensor, leaf))
