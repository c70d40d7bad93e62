"""Memory shared with numpy changes under autograd, silently."""

from __future__ import annotations

from outplace.source.graph import Hit
from outplace.source.rules.silent import silent_rule


def message(hit: Hit) -> str:
    """What shares the memory."""
    rule = silent_rule(hit)
    if rule is not None:
        return rule.message
    return "this numpy array shares its memory with a tensor that backward needs: the gradient is silently wrong"
