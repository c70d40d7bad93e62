"""Rules as people address them: by code, by the beginning of a code, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from outplace.errors import OutplaceError
from outplace.knowledge.kinds import BY_CODE, BY_NAME, KINDS

ALL = "ALL"


def matching(selector: str) -> frozenset[str]:
    """The codes that `selector` stands for: `OUT201`, `OUT2`, `saved`, `ALL`, in any case; none if it is unknown."""
    word = selector.strip()
    kind = BY_NAME.get(word.lower())
    if kind is not None:
        return frozenset([kind.code])
    if word.upper() == ALL:
        return frozenset(BY_CODE)
    if word.upper().startswith("OUT"):
        return frozenset(code for code in BY_CODE if code.startswith(word.upper()))
    return frozenset()


def require(selectors: Iterable[str], origin: str) -> list[str]:
    """The selectors, all of them known; `origin` (`--select`, a key of the configuration) names them in the error."""
    checked = []
    for selector in selectors:
        if not matching(selector):
            raise OutplaceError(f"{origin}: no rule is called {selector!r}; {hint(selector)}")
        checked.append(selector)
    return checked


def hint(word: str) -> str:
    """What was probably meant."""
    names = [name for kind in KINDS for name in (kind.code, kind.name)]
    near = difflib.get_close_matches(word.lower(), names, n=2) or difflib.get_close_matches(word.upper(), names, n=2)
    return f"did you mean {' or '.join(near)}?" if near else "see outplace rules for all of them"


def choose(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    """The codes that are on: as in ruff, the more specific of two selectors wins, and `ignore` where both are equal."""
    return frozenset(code for code in BY_CODE if _strength(code, select) > _strength(code, ignore))


def _strength(code: str, selectors: Sequence[str]) -> int:
    """How closely the closest of the selectors names this code: the letters of the code that it fixes."""
    return max((_precision(selector) for selector in selectors if code in matching(selector)), default=0)


def _precision(selector: str) -> int:
    word = selector.strip()
    if word.upper() == ALL:
        return 1
    return len(word) if word.upper().startswith("OUT") and word.lower() not in BY_NAME else len(KINDS[0].code)
