"""out= is used with a tensor that requires grad."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "`out=` does not support autograd, and one of the arguments requires grad"
