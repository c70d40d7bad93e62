"""Every silent rule: its code, its texts, who finds it and who repairs it. One row a rule, by theme."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.silent_rules import functions, gradients, lists, lost, two_names

RULES: tuple[SilentRule, ...] = tuple(
    sorted(
        (
            rule
            for theme in (gradients, lists, two_names, functions, lost)
            for rule in vars(theme).values()
            if isinstance(rule, SilentRule)
        ),
        key=lambda rule: rule.code,
    )
)

BY_NAME: dict[str, SilentRule] = {rule.name: rule for rule in RULES}
