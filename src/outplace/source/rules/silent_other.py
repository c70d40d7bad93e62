"""References kept instead of copies, hooks that write."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Which of them it is."""
    if hit.detail == "gradient":
        return "a hook writes the gradient in place; other branches may share that very tensor: return a new one"
    return "the kept state_dict() holds the parameters themselves, and this step changes them: keep a deep copy"
