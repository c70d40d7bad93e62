"""A write through .data changes what backward needs, silently."""

from __future__ import annotations

from outplace.knowledge import silent_rules
from outplace.knowledge.nodes import describe_saved
from outplace.source.graph import Hit


def message(hit: Hit) -> str:
    """What is kept, and what changes it unseen."""
    if hit.node is None or hit.save is None:
        return silent_rules.BY_NAME[hit.detail].message
    keeps = describe_saved(hit.node.operation, hit.save.saved_as)
    return f"a write that autograd cannot see changes what backward needs ({keeps}): the gradient is silently wrong"
