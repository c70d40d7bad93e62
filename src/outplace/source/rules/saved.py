"""A tensor that backward needs is modified after it was saved."""

from __future__ import annotations

from outplace.knowledge.nodes import describe_saved
from outplace.source.graph import ARGUMENT, Hit


def message(hit: Hit) -> str:
    """What is kept, and what overwrites it."""
    assert hit.write is not None and hit.node is not None and hit.save is not None
    name = hit.write.target or "the tensor"
    how = hit.write.operation
    wrote = how if " " in how else f"`{how}`"  # `+=` is code, item assignment is words
    if hit.node.operation == ARGUMENT:
        return f"{wrote} overwrites {name}, which the caller has handed in"
    keeps = describe_saved(hit.node.operation, hit.save.saved_as)
    return f"{wrote} overwrites {name}, which backward needs: {keeps}"
