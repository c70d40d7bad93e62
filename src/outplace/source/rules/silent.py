"""Which silent rule a hit is of."""

from __future__ import annotations

from outplace.knowledge import silent_rules
from outplace.knowledge.kind import SilentRule
from outplace.source.graph import Hit


def silent_rule(hit: Hit) -> SilentRule | None:
    """The rule; None where the hit is of a family as a whole."""
    rule = silent_rules.BY_NAME.get(hit.detail)
    return rule if rule is not None and rule.family == hit.kind else None
