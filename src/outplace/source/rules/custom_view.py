"""A view returned by a custom Function is modified in place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    if hit.detail == "read later":
        return (
            "this changes the memory that the output of a custom autograd.Function (or of a module with a backward "
            "hook) is a view of, and it is read after that: write out of place"
        )
    return "the output of a custom autograd.Function (or of a module with a backward hook) is a view, modified in place"
