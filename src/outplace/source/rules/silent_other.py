"""References kept instead of copies, hooks that write."""

from __future__ import annotations

from outplace.knowledge import silent_rules
from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """Each of them is a rule."""
    return silent_rules.BY_NAME[hit.detail].message
