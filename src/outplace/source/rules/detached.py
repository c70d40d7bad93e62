"""A tensor that backward needs was detached in place."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why backward cannot go on."""
    return "`detach_()` cuts a tensor out of the graph that backward still needs: use `x = x.detach()`"
