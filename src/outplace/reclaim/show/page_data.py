"""The results as data for `--json`. Fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from outplace.files.naming import under_cwd
from outplace.reclaim.observe.recording import Recording
from outplace.reclaim.observe.timeline import Account
from outplace.reclaim.outcome import Outcome, activations
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.edits import unified_diff
from outplace.version import __version__

SCHEMA = 1


def as_data(outcome: Outcome) -> dict[str, Any]:
    """All results as plain data."""
    assert outcome.advice is not None and outcome.first.recording is not None
    recording, advice = outcome.first.recording, outcome.advice
    live, live_after = activations(outcome)
    digests = outcome.first.digests
    return {
        "schema": SCHEMA,
        "outplace": __version__,
        "torch": recording.torch,
        "device": recording.device,
        "steps": len(recording.steps),
        "peak": {
            "before": outcome.first.peak,
            "after": outcome.after.peak if outcome.after is not None else None,
            "expected": advice.expected().peak,
            "expected_recomputed": advice.recomputed().peak if advice.blocks else None,
            "activations_before": live,
            "activations_after": live_after,
            "kept_for_backward": advice.account.kept(),
            "allocator_before": outcome.allocator[0] if outcome.allocator else None,
            "allocator_after": outcome.allocator[1] if outcome.allocator else None,
            "at": where(recording, advice.before.moment),
        },
        "seconds_a_step": {"before": outcome.seconds[0], "after": outcome.seconds[1]} if outcome.seconds else None,
        "suggestions": [_suggestion(item, outcome, outcome.after is not None) for item in advice.paying],
        "safe_but_not_paying": [_suggestion(other, outcome, False) for other in advice.others],
        "hints": [_suggestion(hint, outcome, False) for hint in advice.hints],
        "rejected": [_suggestion(item, outcome, False) for item in outcome.rejected],
        "proof": {
            "done": outcome.after is not None,
            "steady": not outcome.unsteady,
            "losses": len(digests.losses) if digests else 0,
            "gradients": len(digests.gradients) if digests else 0,
            "parameters": len(digests.parameters) if digests else 0,
            "buffers": len(digests.buffers) if digests else 0,
            "reproducible_algorithms": outcome.exact,
        },
        "alive_at_peak": by_line(recording, advice.account, advice.before.moment),
        "diff": "".join(
            unified_diff(under_cwd(path), outcome.originals[path], text) for path, text in outcome.texts.items()
        ),
    }


def where(recording: Recording, moment: int) -> dict[str, Any] | None:
    """The line and the operation at one time."""
    if not recording.operations:
        return None
    operation = recording.operations[moment]
    place = recording.places[operation.place]
    return {
        "operation": operation.name,
        "file": under_cwd(place[0][0]) if place else None,
        "line": place[0][1] if place else None,
        "backward": operation.backward,
    }


def by_line(
    recording: Recording, account: Account, moment: int, moved: Mapping[str, Mapping[int, int]] | None = None
) -> list[dict[str, Any]]:
    """Bytes alive at one time, by the line that made them, largest first. `moved` maps line numbers."""
    totals: dict[tuple[str | None, int | None, str], int] = {}

    def add(maker: int | None, nbytes: int, inside: bool = False) -> None:
        key: tuple[str | None, int | None, str] = (None, None, "made before it was seen")
        if maker is not None:
            operation = recording.operations[maker]
            place = recording.places[operation.place]
            name = f"inside {operation.name}" if inside else operation.name.removesuffix("_")
            key = (None, None, name)
            if place:
                file, line = place[0][:2]
                key = (under_cwd(file), (moved or {}).get(file, {}).get(line, line), name)
        totals[key] = totals.get(key, 0) + nbytes

    for number in account.alive_at(moment):
        add(recording.storages[number].maker, account.nbytes(number))
    if recording.operations and recording.operations[moment].workspace:
        add(moment, recording.operations[moment].workspace, inside=True)
    ranked = sorted(totals.items(), key=lambda item: -item[1])
    return [{"file": file, "line": line, "operation": name, "bytes": size} for (file, line, name), size in ranked]


def _suggestion(one: Suggestion, outcome: Outcome, proved: bool) -> dict[str, Any]:
    assert outcome.advice is not None
    return {
        "kind": one.kind,
        "site": {**asdict(one.site), "file": under_cwd(one.site.file)},
        "before": one.before,
        "after": one.after,
        "saves": one.saves,
        "share": one.saves / max(outcome.advice.before.peak, 1),
        "because": one.because,
        "costs": one.costs,
        "refused": one.refused,
        "proved": proved,
    }
