"""A leaf that requires grad is modified in place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    if hit.detail == "stale":
        return "this view is older than a write elsewhere that needs grad, and PyTorch takes it for a leaf: slice again"
    return "a leaf that requires grad is modified in place while grad mode is on"
