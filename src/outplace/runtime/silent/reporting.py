"""Tells of a wrong gradient that PyTorch never reports: once a bug, and where it is asked for by an exception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from outplace.knowledge.kinds import BY_NAME
from outplace.model import Cause, Diagnosis, Fix, Graph, Mutation, SavedTensor, Site, Tensor
from outplace.runtime.errors import dispatch, remedies

NO_ERROR = "no error is raised: the gradient is silently wrong"


class WrongGradientError(RuntimeError):
    """Raised in strict mode when a gradient is silently wrong; the diagnosis is its note."""


strict = 0
"""How many have asked for an exception (`--strict`, `outplace.watch(strict=True)`)."""

_told: dict[tuple[Any, ...], Diagnosis] = {}
to_raise: list[Diagnosis] = []


def tell(
    kind: str,
    tensor: Tensor,
    why: str,
    mutations: tuple[Mutation, ...],
    remedy: str,
    *,
    cause: Cause = "",
    optimizer_at: Site | None = None,
    saved_by: SavedTensor | None = None,
    also_saved_by: tuple[SavedTensor, ...] = (),
    notes: tuple[str, ...] = (),
    drawn: Callable[[], Graph | None] = lambda: None,
) -> None:
    """Reports a bug once, however often the program runs into it."""
    lines = tuple((mutation.site.file, mutation.site.line) for mutation in mutations if mutation.site)
    key = (kind, lines or saved_by)
    if key not in _told:
        found = Diagnosis(
            kind,
            BY_NAME[kind].code,
            NO_ERROR,
            tensor,
            why,
            cause=cause,
            optimizer_at=optimizer_at,
            saved_by=saved_by,
            also_saved_by=also_saved_by,
            mutations=mutations,
            notes=notes,
            graph=drawn(),
        )
        fixes = remedies.rewrite_for(found) or (Fix(remedy, "suggestion"),)
        _told[key] = replace(found, fixes=fixes)
    dispatch.add(_told[key])
    if strict:
        to_raise.append(_told[key])


def raise_if_strict() -> None:
    """Raises what has been told since; called where an exception can reach the user's code."""
    if to_raise:
        found = tuple(dict.fromkeys(to_raise))
        to_raise.clear()
        error = WrongGradientError(_message(found[0]))
        dispatch.attach(error, found)
        raise error


def _message(diagnosis: Diagnosis) -> str:
    lines = [f"{mutation.site.file}:{mutation.site.line}" for mutation in diagnosis.mutations if mutation.site]
    written = f", written at {', '.join(lines)}" if lines else ""
    return f"a gradient is silently wrong ({diagnosis.code} {diagnosis.kind}): {diagnosis.tensor.name}{written}"


def start_afresh() -> None:
    """Forgets what was told."""
    _told.clear()
    to_raise.clear()
