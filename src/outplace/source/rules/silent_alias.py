"""Memory shared with numpy changes under autograd, silently."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """What shares the memory."""
    if hit.detail == "taken again":
        return (
            "this tensor lies in the memory of an array, and this changes the array: the same part is taken from it "
            "again later, changed already: make the tensor of a copy"
        )
    if hit.detail == "kept array":
        return (
            "a list keeps arrays that lie in this memory, again and again, and each write changes all of its entries: "
            "append copies"
        )
    return "this numpy array shares its memory with a tensor that backward needs: the gradient is silently wrong"
