"""From a recording to a ranked list: what each change would take off the peak, alone and together with the others."""

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
from outplace.repair.syntax.edits import Conflict, Edit
from outplace.repair.syntax.files import Files

LEAST_SHARE = 0.001
"""What saves less than this share of the peak does not pay."""
LEAST_SHARE_OF_A_LINE = 0.01
"""What adds or moves a line of the program has to pay more."""
MOST_BEGINNINGS = 8
HARDLY_HIGHER = 1.03
"""A peak that is worth less time."""
_LINES = ("del", "zero-grad")


@dataclass
class Advice:
    """What was found: `paying` lowers the peak, `others` are as safe and do not."""

    account: Account
    before: Curve
    paying: list[Suggestion]
    others: list[Suggestion]
    hints: list[Suggestion]
    """Advice that nothing can be proved for."""
    blocks: list[Suggestion]
    """What could be computed twice; among `paying` only where that was asked for."""

    def expected(self) -> Curve:
        """Memory over time as it should be with all that pays."""
        return self.account.curve([suggestion.change for suggestion in self.paying])

    def recomputed(self) -> Curve:
        """Memory over time as it should be with blocks that are computed twice, too."""
        return self.account.curve([one.change for one in (*self.paying, *self.blocks)])


def advise(recording: Recording, files: Files, recompute: bool = False) -> Advice:
    """All suggestions, the one that saves most first; what takes more time only where it is asked for."""
    account = Account(recording)
    before = account.curve()
    kinds = (Reuses(recording, files), Keepers(recording, files), Gradients(recording, files))
    possible = [one for kind in kinds for one in kind.suggestions()]
    blocks = list(Blocks(recording, files).suggestions())
    hints = list(Hints(recording, files).suggestions())
    for one in (*possible, *blocks, *hints):
        one.alone = before.peak - account.curve([one.change]).peak
    compatible = _compatible(files, sorted(possible, key=lambda one: -one.alone))
    needed = _needed(account, before, compatible)
    blocks = _worth_their_time(account, before, files, needed, blocks)
    if recompute:
        needed += blocks
    value(account, before, needed)
    others = [one for one in compatible if one not in needed and one.kind == "in-place"]
    others = _compatible(files, others, needed)[len(needed) :]
    hints = [one for one in hints if one.alone > before.peak * LEAST_SHARE]
    return Advice(account, before, sorted(needed, key=lambda one: -one.saves), others, hints, blocks)


def _needed(account: Account, before: Curve, suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """Those without which the peak would be higher: of two that free the same memory, one is enough."""
    lines = [one for one in suggestions if one.kind in _LINES]
    kept = _thinned(account, list(suggestions), lines, before.peak * LEAST_SHARE_OF_A_LINE)
    return _thinned(account, kept, kept, before.peak * LEAST_SHARE)


def _worth_their_time(
    account: Account, before: Curve, files: Files, needed: list[Suggestion], blocks: list[Suggestion]
) -> list[Suggestion]:
    """The blocks that lower the peak still further once all is done that costs nothing.

    Of a block and those within it only one is taken. Which ones leave the lowest peak is tried, beginning with each of
    those that save most by themselves; where it hardly differs, those are taken that have less to compute.
    """
    ranked = sorted(blocks, key=lambda one: -one.alone)
    choices = []
    for first in ranked[:MOST_BEGINNINGS]:
        together = _compatible(files, [first, *(one for one in ranked if one is not first)], needed)
        kept = _thinned(account, together, together[len(needed) :], before.peak * LEAST_SHARE_OF_A_LINE)
        computed = sum(len(one.change.gaps) for one in kept)
        choices.append((account.curve([one.change for one in kept]).peak, computed, kept))
    if not choices:
        return []
    lowest = min(peak for peak, _, _ in choices)
    near = [choice for choice in choices if choice[0] <= lowest * HARDLY_HIGHER]
    return [one for one in min(near, key=lambda choice: choice[1])[2] if one.kind == "recompute"]


def _thinned(
    account: Account, kept: list[Suggestion], candidates: Sequence[Suggestion], bytes_to_spare: float
) -> list[Suggestion]:
    """Leaves out candidates, the least first, as long as the peak does not rise by more than can be spared in all."""
    lowest = now = account.curve([one.change for one in kept]).peak
    for one in sorted(candidates, key=lambda one: one.alone):
        rest = [other for other in kept if other is not one]
        without = account.curve([other.change for other in rest]).peak
        if without <= now or without - lowest <= bytes_to_spare:
            kept, now = rest, without
    return kept


def value(account: Account, before: Curve, suggestions: Sequence[Suggestion]) -> None:
    """What each is worth."""
    whole = account.curve([one.change for one in suggestions]).peak
    for one in suggestions:
        rest = [other.change for other in suggestions if other is not one]
        one.alone = before.peak - account.curve([one.change]).peak
        one.together = account.curve(rest).peak - whole


def _compatible(files: Files, suggestions: Sequence[Suggestion], first: Sequence[Suggestion] = ()) -> list[Suggestion]:
    """Those that can be made together: of two that want the same memory or the same characters the first stays."""
    kept = list(first)
    for one in suggestions:
        if not all(one.change.goes_with(other.change) for other in kept) or not one.change.goes_with(one.change):
            continue
        try:
            if edited(files, [*kept, one]) is not None:
                kept.append(one)
        except Conflict:
            continue
    return kept


def edited(files: Files, suggestions: Sequence[Suggestion]) -> Files | None:
    """The files with these changes made."""
    edits: dict[str, tuple[Edit, ...]] = {}
    for one in suggestions:
        for path, changes in one.edits.items():
            edits[path] = (*edits.get(path, ()), *changes)
    return files.edited(edits)
