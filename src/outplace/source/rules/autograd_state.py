"""An in-place change of autograd state that PyTorch refuses."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return "a view cannot be detached in place: `x = x.detach()`"
