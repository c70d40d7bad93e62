"""Reports a silent bug once, and raises it as an exception if that was requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.kinds import BY_CODE
from outplace.model import Diagnosis, Graph, Mutation, Tensor
from outplace.runtime.errors import dispatch
from outplace.runtime.record.log import Instruction
from outplace.runtime.silent import kept_at

NO_ERROR = "no error is raised: the gradient is silently wrong"


class WrongGradientError(RuntimeError):
    """Raised in strict mode when a gradient is silently wrong. The diagnosis is its note."""


strict = 0
"""How many callers have requested an exception (`--strict`, `outplace.watch(strict=True)`)."""

_told: dict[tuple[Any, ...], Diagnosis] = {}
to_raise: list[Diagnosis] = []


def tell(
    rule: SilentRule,
    tensor: Tensor,
    mutations: tuple[Mutation, ...],
    words: Mapping[str, object] = MappingProxyType({}),
    place: Instruction | None = None,
    **facts: Any,
) -> None:
    """Reports a bug of a rule once, however often the program runs into it.

    `words` fill the {names} in the texts of the rule. `place` is the line that kept a reference, if the detector knows
    it. `facts` are further fields of the diagnosis.
    """
    why, remedy = rule.why.format_map(words), rule.remedy.format_map(words)
    if rule.kept:
        paths = (tensor.name, *(str(words[key]) for key in ("name", "other") if key in words))
        facts["notes"] = (*facts.get("notes", ()), *kept_at.notes(mutations, paths, place))
    texts = (rule.family, rule.code, NO_ERROR, tensor, why)
    report(Diagnosis(*texts, cause=rule.name, mutations=mutations, **facts), remedy)


def report(diagnosis: Diagnosis, remedy: str, drawn: Callable[[], Graph | None] = lambda: None) -> None:
    """Reports a bug once. `remedy` is the advice if no safe fix is known; `drawn` makes the excerpt of the graph."""
    lines = tuple((mutation.site.file, mutation.site.line) for mutation in diagnosis.mutations if mutation.site)
    key = (diagnosis.code, lines or diagnosis.saved_by)
    if key not in _told:
        from outplace.runtime.errors import remedies  # loads the whole analysis; most processes report nothing

        shown = replace(diagnosis, graph=drawn())
        _told[key] = replace(shown, fixes=remedies.fixes_of_silent(shown, remedy))
    dispatch.add(_told[key])
    if strict:
        to_raise.append(_told[key])


def knows(mutations: tuple[Mutation, ...]) -> bool:
    """Has a report named all of these lines already?"""
    lines = {(item.site.file, item.site.line) for item in mutations if item.site}
    named = ({(item.site.file, item.site.line) for item in told.mutations if item.site} for told in _told.values())
    return any(lines <= known for known in named)


def raise_if_strict() -> None:
    """Raises what was reported since. Called where an exception can reach the user's code."""
    if to_raise:
        found = tuple(dict.fromkeys(to_raise))
        to_raise.clear()
        error = WrongGradientError(_message(found[0]))
        dispatch.attach(error, found)
        raise error


def _message(diagnosis: Diagnosis) -> str:
    lines = [f"{mutation.site.file}:{mutation.site.line}" for mutation in diagnosis.mutations if mutation.site]
    written = f", written at {', '.join(lines)}" if lines else ""
    rule = f"{diagnosis.code} {BY_CODE[diagnosis.code].name}"
    return f"a gradient is silently wrong ({rule}): {diagnosis.tensor.name}{written}"


def reset() -> None:
    """Forgets what was reported."""
    _told.clear()
    to_raise.clear()
