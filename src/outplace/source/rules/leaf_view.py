"""A view of a leaf that requires grad is modified in place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "a view of a leaf that requires grad is modified in place while grad mode is on"
