"""Functional updates: what `x[index] = v` means, as a new tensor that autograd understands."""

from outplace.updates.decorator import functional
from outplace.updates.masks import blend, to_mask
from outplace.updates.place import at

__all__ = ["at", "blend", "functional", "to_mask"]
