"""Several elements of the written-to tensor share one memory location."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    if hit.detail == "parameter":
        return (
            "a parameter is made of an expanded tensor, whose elements share memory: clone() it in `nn.Parameter(...)`"
        )
    if hit.detail == "loaded":
        return "a parameter lies in expanded memory, whose elements are one, and cannot be loaded: make it of a clone()"
    return "the written-to tensor is expanded: several of its elements share one memory location"
