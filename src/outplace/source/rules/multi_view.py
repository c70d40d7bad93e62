"""One of several views made by one call is modified in place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    if hit.detail == "read later":
        return (
            "this changes a tensor, and one of several views of it (unbind, split, chunk, iteration) that were made "
            "before is read after it: make them anew"
        )
    return "one of several views made by one call (unbind, split, chunk, iteration) is modified in place"
