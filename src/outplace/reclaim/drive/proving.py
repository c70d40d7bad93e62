"""Runs the program, collects suggestions, and proves them by running the changed program."""

from __future__ import annotations

from collections.abc import Sequence

from outplace.files import naming
from outplace.reclaim.drive.trials import Trials
from outplace.reclaim.observe.trial import Trial
from outplace.reclaim.outcome import Outcome
from outplace.reclaim.rules.advice import advise, edited, value
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.files import Files, Unwritable, read

_UNCHANGED = "the unchanged program again, to see if its results vary"
MOST_SINGLE_TRIALS = 24
"""Suggestions that are tried one by one where all of them together do not hold."""


class Reclaim:
    """One run of the command."""

    def __init__(self, trials: Trials, everything: bool = False, prove: bool = True, recompute: bool = False) -> None:
        self._trials, self._everything, self._prove, self._recompute = trials, everything, prove, recompute
        self._again: Trial | None = None

    def run(self) -> Outcome:
        """Runs the program, finds savings, and tries them."""
        outcome = Outcome(self._trials.run(""))
        outcome.trouble = _trouble(outcome.first)
        recording = outcome.first.recording
        if outcome.trouble or recording is None:
            return outcome
        texts = {path: text for path in recording.files if (text := _text(path)) is not None}
        outcome.originals = texts
        files = Files(texts, may_read=False)
        outcome.advice = advise(recording, files, self._recompute)
        wanted = [*outcome.advice.paying, *(outcome.advice.others if self._everything else ())]
        if wanted and self._prove:
            self._try(outcome, files, wanted)
        on_cuda = recording.device.startswith("cuda")
        if self._prove and (on_cuda or (self._recompute and outcome.texts)):
            before = self._trials.run("time and memory before", ledger=False)
            changed = self._trials.run("time and memory after", outcome.texts, False) if outcome.texts else None
            if on_cuda:
                outcome.allocator = (before.peak, changed.peak if changed else None)
            if changed is not None and before.seconds and changed.seconds:
                outcome.seconds = (before.seconds, changed.seconds)
        return outcome

    def _try(self, outcome: Outcome, files: Files, wanted: list[Suggestion]) -> None:
        assert outcome.advice is not None
        kept, after = self._kept(outcome, files, wanted)
        if outcome.unsteady:
            return
        outcome.rejected = [item for item in wanted if item not in kept]
        outcome.advice.paying = [item for item in outcome.advice.paying if item in kept]
        outcome.advice.others = [other for other in outcome.advice.others if other not in outcome.rejected]
        if not kept or after is None:
            return
        if outcome.rejected:
            value(outcome.advice.account, outcome.advice.before, outcome.advice.paying)
        outcome.after, outcome.exact = after, self._trials.exact
        outcome.texts = _changed(files, kept)

    def _kept(self, outcome: Outcome, files: Files, wanted: list[Suggestion]) -> tuple[list[Suggestion], Trial | None]:
        """The suggestions that pass the proof: all at once, or one added after another."""
        count = len(wanted)
        after = self._trial(outcome, files, wanted, "the change" if count == 1 else f"all {count} changes together")
        if after is not None:
            return wanted, after
        if outcome.unsteady or len(wanted) == 1:
            return [], None
        kept: list[Suggestion] = []
        tried = wanted[:MOST_SINGLE_TRIALS]
        for number, item in enumerate(tried, 1):
            trial = self._trial(outcome, files, [*kept, item], f"change {number} of {len(tried)}, {_place(item)}")
            if trial is not None:
                kept, after = [*kept, item], trial
        return kept, after

    def _trial(self, outcome: Outcome, files: Files, suggestions: list[Suggestion], about: str) -> Trial | None:
        """A run with these changes, or None if it computes something else."""
        texts = _changed(files, suggestions)
        after = self._trials.run(about, texts)
        difference = self._difference(outcome.first, after)
        if difference and self._may_try_again(outcome):
            after = self._trials.run(about, texts)
            difference = self._difference(outcome.first, after)
        suggestions[-1].refused = difference
        return None if difference or outcome.unsteady else after

    def _difference(self, first: Trial, after: Trial) -> str:
        """How the results of the changed program differ from the original; empty if they are equal."""
        found = after.differs_from(first)
        if found or after.output == first.output:
            return found
        if self._again is None:
            self._again = self._trials.run(_UNCHANGED)
        return "other output" if self._again.output == first.output else ""  # or it prints the time

    def _may_try_again(self, outcome: Outcome) -> bool:
        """Two runs differ. Does the unchanged program also differ from run to run?

        On CUDA the bits may depend on addresses. The program is then run with reproducible algorithms only.
        """
        assert outcome.first.recording is not None
        held = outcome.first.recording.device.startswith("cuda") and not self._trials.exact
        if held:
            self._trials.exact = True
            outcome.first = self._trials.run("the unchanged program, with reproducible algorithms")
            self._again = None
        if self._again is None:
            self._again = self._trials.run(_UNCHANGED)
            outcome.unsteady = self._again.differs_from(outcome.first)
        return held and not outcome.unsteady

    def holds_on_disk(self, outcome: Outcome) -> bool:
        """Runs the files as written. Do they give the proved result?"""
        return not self._difference(outcome.first, self._trials.run("the files as written"))


def _place(item: Suggestion) -> str:
    return naming.place(item.site.file, item.site.line)


def _changed(files: Files, suggestions: Sequence[Suggestion]) -> dict[str, str]:
    new_files = edited(files, suggestions)
    if new_files is None:
        return {}
    return {path: new_files.text(path) for path in new_files.paths if new_files.text(path) != files.text(path)}


def _text(path: str) -> str | None:
    try:
        return read(path).text
    except Unwritable:
        return None


def _trouble(trial: Trial) -> str:
    """Why a program cannot be analysed."""
    if trial.timed_out:
        return "the program was still in its first steps when its time was up: give it more with --timeout"
    if trial.code < 0:
        name = naming.signal_name(-trial.code)
        return f"the program was killed ({name}): it has to run before it can run in less memory"
    if trial.code != 0:
        return f"the program failed (exit code {trial.code}): it has to run before it can run in less memory"
    if trial.recording is None:
        return "the program ended in a way that left no account of its memory (os._exit?)"
    if not trial.recording.operations:
        return "the program ran no operation on tensors; only its main process and thread are looked at"
    if not trial.recording.backwards:
        return "the program never called backward: there was no training step to look at"
    return ""
