"""Several elements of the written-to tensor share one memory location."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "the written-to tensor is expanded: several of its elements share one memory location"
