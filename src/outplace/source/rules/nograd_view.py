"""A view made under no_grad is modified in place with grad on."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "a view made under no_grad is modified in place while grad mode is on"
