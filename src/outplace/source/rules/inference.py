"""An inference tensor is modified or saved outside inference_mode."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Why it is refused."""
    return f"a tensor made in inference_mode is {hit.detail} outside of it"
