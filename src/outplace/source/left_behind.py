"""Memory that a holder pointed to before a repair gives it a new tensor (see `rebinding`)."""

from __future__ import annotations

from dataclasses import dataclass

from outplace.source.graph import Path, Storage, compatible
from outplace.source.joins import options
from outplace.source.overlaps import apart
from outplace.source.torch_model.regions import are_other_parts
from outplace.source.values import Instance, Tensor, Value


@dataclass(frozen=True)
class LeftBehind:
    """Memory that a holder pointed to before the statement, and the part of it that is written there."""

    tensor: Tensor
    path: Path
    time: int
    copy: Storage
    """The memory of the copy."""
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
