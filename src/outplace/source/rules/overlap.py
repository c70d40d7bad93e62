"""An in-place operation reads memory that it writes at another place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "what is read overlaps what is written, so the result would depend on the order: read a `.clone()`"
