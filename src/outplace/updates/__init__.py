"""Functional updates: what `x[index] = v` means, as a new tensor that autograd understands."""

from outplace.updates.at import at
from outplace.updates.functional import functional
from outplace.updates.masks import blend, to_mask

__all__ = ["at", "blend", "functional", "to_mask"]
