"""Selects rules: by code, by the beginning of a code, by name, or by family."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from outplace.errors import OutplaceError
from outplace.knowledge.kind import Kind
from outplace.knowledge.kinds import BY_CODE, BY_NAME, KINDS, members

ALL = "ALL"


def matching(selector: str) -> frozenset[str]:
    """The codes that `selector` stands for: `OUT201`, `OUT2`, `saved`, `ALL`, in any case; none if it is unknown.

    A family (`OUT303`, `silent-other`) stands for its rules as well.
    """
    named = _named(selector.strip())
    return frozenset(code for kind in named for code in (kind.code, *(rule.code for rule in members(kind))))


def _named(word: str) -> Sequence[Kind]:
    """The rules with this name, this code or this beginning of a code."""
    kind = BY_NAME.get(word.lower())
    if kind is not None:
        return (kind,)
    if word.upper() == ALL:
        return KINDS
    return [kind for kind in KINDS if word.upper().startswith("OUT") and kind.code.startswith(word.upper())]


def require(selectors: Iterable[str], origin: str) -> list[str]:
    """The selectors, or an error if one is unknown. `origin`: where they come from, for the message (`--select`)."""
    checked = []
    for selector in selectors:
        if not matching(selector):
            raise OutplaceError(f"{origin}: no rule is called {selector!r}; {hint(selector)}")
        checked.append(selector)
    return checked


def hint(word: str) -> str:
    """A hint at the rule that was probably meant."""
    same_family = [kind.code for kind in KINDS if kind.code[:4] == word.upper()[:4]]
    names = [*(same_family or (kind.code for kind in KINDS)), *(kind.name for kind in KINDS)]
    near = difflib.get_close_matches(word.lower(), names, n=2) or difflib.get_close_matches(word.upper(), names, n=2)
    return f"did you mean {' or '.join(near)}?" if near else "see outplace rules for all of them"


def choose(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    """The selected codes. As in ruff, the more specific selector wins; if both are equal, `ignore` wins."""
    return frozenset(code for code in BY_CODE if _strength(code, select) > _strength(code, ignore))


def _strength(code: str, selectors: Sequence[str]) -> float:
    """How exact the best selector is: the number of letters of the code that it gives."""
    return max((_precision(code, selector) for selector in selectors if code in matching(selector)), default=0)


def _precision(code: str, selector: str) -> float:
    word = selector.strip()
    if word.upper() == ALL:
        return 1
    if word.lower() in BY_NAME:
        word = BY_NAME[word.lower()].code
    return len(word) - (0 if code.startswith(word.upper()) else _BY_FAMILY)


_BY_FAMILY = 0.5
"""A family is less exact than the code of a rule, and more exact than a shorter prefix."""
