"""Functional updates: the result of `x[index] = v` as a new tensor, with gradients."""

from outplace.updates.at_index import at
from outplace.updates.decorator import functional
from outplace.updates.masks import blend, to_mask

__all__ = ["at", "blend", "functional", "to_mask"]
