"""The result of an in-place operation has another dtype than its target."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "the result is a float, the target holds integers: it cannot be written in place"
