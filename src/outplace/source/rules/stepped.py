"""Parameters are updated between a forward and its backward."""

from __future__ import annotations

from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Which update, and between what."""
    assert hit.write is not None
    return f"`{hit.write.operation}` changes parameters in place before a backward that still needs their old values"
