"""A write through .data changes what backward needs, silently."""

from __future__ import annotations

from outplace.knowledge.nodes import describe_saved
from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """What is kept, and what changes it unseen."""
    assert hit.write is not None and hit.node is not None and hit.save is not None
    keeps = describe_saved(hit.node.operation, hit.save.saved_as)
    return f"a write that autograd cannot see changes what backward needs ({keeps}): the gradient is silently wrong"
