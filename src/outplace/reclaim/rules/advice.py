"""Turns a recording into a ranked list of suggestions, with the memory that each one saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outplace.reclaim.observe.recording import Recording
from outplace.reclaim.observe.timeline import Account, Curve
from outplace.reclaim.rules.gradient_memory import Gradients
from outplace.reclaim.rules.hints import Hints
from outplace.reclaim.rules.needless_keepers import Keepers
from outplace.reclaim.rules.recompute_blocks import Blocks
from outplace.reclaim.rules.reuse_memory import Reuses
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.edits import Conflict, united
from outplace.repair.syntax.files import Files

LEAST_SHARE = 0.001
"""A suggestion must save at least this share of the peak."""
LEAST_SHARE_OF_A_LINE = 0.01
"""The share for a suggestion that adds or moves a line."""
MOST_BEGINNINGS = 8
HARDLY_HIGHER = 1.03
"""The tolerance for a slightly higher peak that costs less time."""
_LINES = ("del", "zero-grad")


@dataclass
class Advice:
    """The suggestions: `paying` lower the peak; `others` are safe too, but do not."""

    account: Account
    before: Curve
    paying: list[Suggestion]
    others: list[Suggestion]
    hints: list[Suggestion]
    """Advice without proof."""
    blocks: list[Suggestion]
    """Blocks to recompute. They are in `paying` only on request."""

    def expected(self) -> Curve:
        """Expected memory over time with all paying suggestions."""
        return self.account.curve([suggestion.change for suggestion in self.paying])

    def recomputed(self) -> Curve:
        """Expected memory over time, with recomputed blocks too."""
        return self.account.curve([item.change for item in (*self.paying, *self.blocks)])


def advise(recording: Recording, files: Files, recompute: bool = False) -> Advice:
    """All suggestions, the largest saving first. Recomputation only on request."""
    account = Account(recording)
    before = account.curve()
    kinds = (Reuses(recording, files), Keepers(recording, files), Gradients(recording, files))
    possible = [suggestion for kind in kinds for suggestion in kind.suggestions()]
    blocks = list(Blocks(recording, files).suggestions())
    hints = list(Hints(recording, files).suggestions())
    for one in (*possible, *blocks, *hints):
        one.alone = before.peak - account.curve([one.change]).peak
    compatible = _compatible(files, sorted(possible, key=lambda item: -item.alone))
    needed = _needed(account, before, compatible)
    blocks = _worth_their_time(account, before, files, needed, blocks)
    if recompute:
        needed += blocks
    value(account, before, needed)
    others = [item for item in compatible if item not in needed and item.kind == "in-place"]
    others = _compatible(files, others, needed)[len(needed) :]
    hints = [hint for hint in hints if hint.alone > before.peak * LEAST_SHARE]
    return Advice(account, before, sorted(needed, key=lambda item: -item.saves), others, hints, blocks)


def _needed(account: Account, before: Curve, suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """The suggestions that matter: of two that free the same memory, one is enough."""
    lines = [suggestion for suggestion in suggestions if suggestion.kind in _LINES]
    kept = _thinned(account, list(suggestions), lines, before.peak * LEAST_SHARE_OF_A_LINE)
    return _thinned(account, kept, kept, before.peak * LEAST_SHARE)


def _worth_their_time(
    account: Account, before: Curve, files: Files, needed: list[Suggestion], blocks: list[Suggestion]
) -> list[Suggestion]:
    """The blocks to recompute that lower the peak further, after all free changes.

    Of a block and the blocks inside it only one is taken. The search starts from each of the blocks that save most.
    Between nearly equal results it takes the one with less to recompute.
    """
    ranked = sorted(blocks, key=lambda block: -block.alone)
    choices = []
    for first in ranked[:MOST_BEGINNINGS]:
        together = _compatible(files, [first, *(item for item in ranked if item is not first)], needed)
        kept = _thinned(account, together, together[len(needed) :], before.peak * LEAST_SHARE_OF_A_LINE)
        computed = sum(len(item.change.gaps) for item in kept)
        choices.append((account.curve([item.change for item in kept]).peak, computed, kept))
    if not choices:
        return []
    lowest = min(peak for peak, _, _ in choices)
    near = [choice for choice in choices if choice[0] <= lowest * HARDLY_HIGHER]
    return [item for item in min(near, key=lambda choice: choice[1])[2] if item.kind == "recompute"]


def _thinned(
    account: Account, kept: list[Suggestion], candidates: Sequence[Suggestion], bytes_to_spare: float
) -> list[Suggestion]:
    """Drops candidates, the smallest first, while the peak stays within the allowed tolerance."""
    lowest = now = account.curve([item.change for item in kept]).peak
    for one in sorted(candidates, key=lambda candidate: candidate.alone):
        rest = [other for other in kept if other is not one]
        without = account.curve([other.change for other in rest]).peak
        if without <= now or without - lowest <= bytes_to_spare:
            kept, now = rest, without
    return kept


def value(account: Account, before: Curve, suggestions: Sequence[Suggestion]) -> None:
    """How much each suggestion saves."""
    whole = account.curve([suggestion.change for suggestion in suggestions]).peak
    for suggestion in suggestions:
        rest = [other.change for other in suggestions if other is not suggestion]
        suggestion.alone = before.peak - account.curve([suggestion.change]).peak
        suggestion.together = account.curve(rest).peak - whole


def _compatible(files: Files, suggestions: Sequence[Suggestion], first: Sequence[Suggestion] = ()) -> list[Suggestion]:
    """The suggestions that can be applied together. Of two that need the same memory or text, the first stays."""
    kept = list(first)
    for suggestion in suggestions:
        if not all(suggestion.change.goes_with(other.change) for other in kept) or not suggestion.change.goes_with(
            suggestion.change
        ):
            continue
        try:
            if edited(files, [*kept, suggestion]) is not None:
                kept.append(suggestion)
        except Conflict:
            continue
    return kept


def edited(files: Files, suggestions: Sequence[Suggestion]) -> Files | None:
    """The files with these changes applied."""
    return files.edited(united(suggestion.edits for suggestion in suggestions))
