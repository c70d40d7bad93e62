"""One of several views made by one call is modified in place."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "one of several views made by one call (unbind, split, chunk, iteration) is modified in place"
