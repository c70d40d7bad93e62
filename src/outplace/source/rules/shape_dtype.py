"""The result of an in-place operation has another dtype or shape than its target."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    if hit.detail.startswith("shape"):
        return "the other operand does not fit: an in-place operation cannot change the shape of its target"
    return "the result has a dtype that the target cannot hold (a fraction for integers, say): write out of place"
