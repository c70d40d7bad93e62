"""A leaf that requires grad is modified in place."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "a leaf that requires grad is modified in place while grad mode is on"
