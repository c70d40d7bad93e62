"""Repairs from the evidence of a run: rewrites the writes, and runs the program again to prove the repair.

Nothing is written before the proof. Each round repairs what the last run has shown, and runs the result in a new
process. An error that was hidden by another one is repaired in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from outplace.model import Safety, is_silent
from outplace.repair.drive.evidence import (
    Evidence,
    alike,
    drew_same_numbers,
    same_gradients,
    same_roots,
    same_training,
    trains_as_many,
)
from outplace.repair.drive.runs import Runs, bug_of, identity
from outplace.repair.facts.bug import INTENTS, Bug, Candidate, Intent, Keeps, Moment
from outplace.repair.facts.location import Style
from outplace.repair.plan.chooser import propose
from outplace.repair.syntax.edits import Conflict, united
from outplace.repair.syntax.files import Files
from outplace.source.project import OutOfTime

MOST_ROUNDS = 8
MOST_TRIES = 8
"""The most runs of one round."""
_CHANGED_VALUES = {"silent-alias", "silent-other"}
_OF_FREED = "you must choose where to detach: a detach changes what is trained, so no run can prove it"
_OUT_OF_TIME = "no rewrite was proved within the time of --fix-timeout"
_LEAST_FIRST: tuple[Keeps, ...] = ("beginning", "earlier", "failed", "values", "steps", "gradients", "all")
_OTHER_TRAINING: tuple[Keeps, ...] = ("beginning", "earlier", "failed")
"""From some backward on, the numbers change."""
_SAVED = ("saved", "stepped", "silent-data", "detached")
"""Kinds that do not fail if everything saved is copied. Such a run has the right gradients."""


@dataclass
class Proof:
    """What the runs have proved about one round."""

    title: str
    loss: str
    gradient: str
    intent: Intent | None = None
    """The intent that this repair fits, if another repair fits the other one."""


@dataclass
class Outcome:
    """The result of the repair."""

    evidence: Evidence
    output: Path
    """What the last run has printed."""
    first_output: Path
    """What the first run has printed. The user has seen it."""
    texts: dict[str, str] = field(default_factory=dict)
    """The repaired files; empty if there is nothing to write."""
    proofs: list[Proof] = field(default_factory=list)
    trouble: str = ""
    """Why nothing was repaired."""
    left: str = ""
    """The silent bugs that remain after an error was repaired."""


_Result = tuple[Files, Evidence, Path, Proof]
"""The edited files, the evidence of their run, its output, and the proof."""


class Repair:
    """One `outplace run --fix`."""

    def __init__(self, runs: Runs, style: Style = "auto", unsafe: bool = False, intent: Intent | None = None) -> None:
        self._runs, self._style, self._unsafe, self._intent = runs, style, unsafe, intent
        self._reference: Evidence | None = None
        self._earlier: Evidence | None = None
        """The reference run of this round, and that of the round before."""
        self._ran_out = False
        self._is_partial = False
        """Has the last round repaired only some of several errors? Then the next reference must confirm it."""

    def run(self) -> Outcome:
        """Runs the program, repairs it, and proves the repair."""
        evidence, output = self._runs.first()
        outcome = Outcome(evidence, output, output)
        try:
            return self._repaired(outcome)
        except OutOfTime:
            outcome.texts, outcome.proofs, outcome.trouble = {}, [], _OUT_OF_TIME
            return outcome

    def _repaired(self, outcome: Outcome) -> Outcome:
        evidence, output = outcome.evidence, outcome.output
        files = Files({path: text for path in evidence.files if (text := _text(path)) is not None}, may_read=False)
        for _ in range(MOST_ROUNDS):
            if evidence.good or not evidence.diagnoses:
                break
            result = self._round(files, evidence)
            if result is None and outcome.proofs and _is_silent(evidence):
                outcome.left = _remaining_bugs(evidence)
                break
            if result is None:
                outcome.trouble = self._why_not(evidence, files)
                outcome.texts, outcome.proofs = {}, []
                return outcome
            files, evidence, output, proof = result
            outcome.proofs = [*self._with_last_proof_extended(outcome.proofs), proof]
        else:
            outcome.trouble = f"an in-place error remains after {MOST_ROUNDS} rounds"
            return outcome
        if not outcome.proofs:
            result = self._silent(files, evidence) if evidence.good else None
            if result is None:
                outcome.trouble = _OF_FREED if evidence.came_into_freed and evidence.code else ""
                return outcome
            files, evidence, output, proof = result
            outcome.proofs.append(proof)
        if not evidence.good and not outcome.left:
            outcome.trouble = "the in-place error is gone, but the program then fails in another way"
            return outcome
        outcome.texts = {path: files.text(path) for path in files.paths if files.text(path) != _text(path)}
        outcome.evidence, outcome.output = evidence, output
        return outcome

    def _with_last_proof_extended(self, proofs: list[Proof]) -> list[Proof]:
        """After a round with an error left, the run could not be compared to its end. The next reference run can."""
        if not proofs or self._earlier is None or self._reference is None:
            return proofs
        if not (self._reference.steps and same_training(self._earlier, self._reference)):
            return proofs
        return [*proofs[:-1], _of_training(proofs[-1].title, self._reference)]

    def _why_not(self, evidence: Evidence, files: Files) -> str:
        if self._ran_out:
            return _OUT_OF_TIME
        kinds = {diagnosis["kind"] for diagnosis in evidence.diagnoses}
        if kinds != {"stepped"}:
            return "no rewrite could be proved"
        if self._intent is not None:
            return f"no rewrite could be proved for --intent {self._intent}"
        if evidence.moment is None:
            return (
                "weights are written between a forward and its backward, and it is not clear which may move; write "
                "them after the backward, or let the forward use a copy"
            )
        step, backward = evidence.moment["step_line"], evidence.moment["backward_line"]
        code = files.code(evidence.moment["file"])
        line = code.lines[backward - 1] if code is not None else ""
        names = [f"`{name}`" for name in evidence.moment["stale"] if "." not in name and name not in line]
        through = f", which needs the old weights through {', '.join(names[:4])}" if names else ""
        choice = "choose: detach, run the forward again, or step later"
        this, following = (" of one iteration", " of the next") if step >= backward else ("", "")
        places = f"the step in line {step}{this} comes before the backward in line {backward}{following}"
        return f"{places}{through}; {choice}"

    def _round(self, files: Files, evidence: Evidence) -> _Result | None:
        """The first candidate whose run has fewer bugs than before, and no other change."""
        reference = self._run_reference(files, evidence)
        if self._is_partial and reference is not None and not _same_as_meant(self._earlier, reference):
            return None
        second_best: dict[_Flaw, _Result] = {}
        fewer: _Result | None = None
        candidates = list(islice(self._candidates(files, evidence), MOST_TRIES))
        intents = {candidate.intent for candidate, _ in candidates}
        for number, (candidate, edited) in enumerate(candidates, 1):
            tried = files.edited(candidate.checking) if candidate.checking else edited
            about = f"repair {number} of {len(candidates)}: {candidate.title}"
            ran = self._run_again(_changed(tried or edited), about)
            if ran is None:
                break
            after, output = ran
            proof = _judge(candidate, evidence, after, reference) or _judge_part(candidate, evidence, after)
            if proof is not None:
                if intents.issuperset(INTENTS):
                    proof.intent = candidate.intent
                flaw = _flaw(candidate, evidence, after)
                if flaw is None:
                    self._is_partial = False
                    return edited, after, output, proof
                second_best.setdefault(flaw, (edited, after, output, proof))
            elif fewer is None or len(after.diagnoses) < len(fewer[1].diagnoses):
                proof = _judge_one(candidate, evidence, after, reference)
                fewer = fewer if proof is None else (edited, after, output, proof)
        self._is_partial = not second_best and fewer is not None
        return second_best.get("later error") or second_best.get("other draws") or fewer

    def _run_again(self, texts: dict[str, str], about: str) -> tuple[Evidence, Path] | None:
        """Runs the program with these texts; None if the time is over."""
        try:
            return self._runs.again(texts, about)
        except OutOfTime:
            self._ran_out = True
            return None

    def _run_reference(self, files: Files, evidence: Evidence) -> Evidence | None:
        """A run that copies everything saved, for errors that do not occur then."""
        self._reference, self._earlier = None, self._reference
        if any(diagnosis["kind"] in _SAVED for diagnosis in evidence.diagnoses):
            self._reference = self._runs.again(_changed(files), "compute the right gradients, to compare with", True)[0]
        return self._reference

    def _silent(self, files: Files, evidence: Evidence) -> _Result | None:
        """Repairs silent bugs that only the source analysis shows, in the files that have just run."""
        from outplace.repair.drive.from_source import repair
        from outplace.source.analysis import check_file
        from outplace.source.project import Project

        titles: list[str] = []
        texts = {path: files.text(path) for path in files.paths}
        for path in files.paths:
            self._runs.require_time()
            rest = {other: text for other, text in texts.items() if other != path}
            repaired = repair(
                path,
                texts[path],
                lambda path, text: check_file(path, text, Project()).all_findings(),
                is_silent,
                style=self._style,
                others=rest.copy,
            )
            if repaired.done:
                texts[path] = repaired.text
                titles += [candidate.title for _, candidate in repaired.done]
        if not titles:
            return None
        edited = Files(texts, may_read=False)
        after, output = self._runs.again(_changed(edited), f"repair of silent bugs: {titles[0]}")
        if not after.good:
            return None
        title = "; ".join(dict.fromkeys(titles))
        alike = bool(after.roots) and same_roots(evidence, after, 1)
        loss = "unchanged in the first backward" if alike else "changed: the bug had changed its values"
        return edited, after, output, Proof(title, loss, "the source shows that they were wrong; a run cannot show it")

    def _candidates(self, files: Files, evidence: Evidence) -> Iterator[tuple[Candidate, Files]]:
        """First the best candidates of all diagnoses together, then each candidate alone."""
        moment = Moment(**evidence.moment) if evidence.moment is not None else None
        bugs = [replace(bug_of(diagnosis), moment=moment, intent=self._intent) for diagnosis in evidence.diagnoses]
        tried: list[dict[str, str]] = []
        by_bug = [candidates for bug in bugs if (candidates := list(self._allowed(files, bug, bugs)))]
        firsts = [candidates[0] for candidates in by_bug]
        plainest = [next((plain for plain in candidates if not plain.checking), candidates[0]) for candidates in by_bug]
        several = [_joined(choice) for choice in (firsts, plainest) if len(choice) > 1]
        for candidate in (*several, *chain.from_iterable(by_bug)):
            try:
                edited = files.edited(candidate.edits)
            except (Conflict, KeyError):
                continue
            if edited is not None and _changed(edited) not in tried:
                tried.append(_changed(edited))
                yield candidate, edited

    def _allowed(self, files: Files, bug: Bug, bugs: list[Bug]) -> Iterator[Candidate]:
        neighbours = tuple(other for other in bugs if other is not bug)
        for candidate in propose(files, bug, self._style, neighbours):
            self._runs.require_time()
            if candidate.safety == "safe" or candidate.provable or (self._unsafe and candidate.safety == "unsafe"):
                yield candidate


_Flaw = Literal["other draws", "later error"]
"""Why a proved candidate is only second best: it draws random numbers again, or a later backward fails."""


def _flaw(candidate: Candidate, before: Evidence, after: Evidence) -> _Flaw | None:
    """What another candidate may do better; None if nothing."""
    if candidate.keeps == "earlier" and not drew_same_numbers(before, after):
        return "other draws"
    if candidate.keeps in _OTHER_TRAINING and not after.good:
        return "later error"
    return None


def _is_silent(evidence: Evidence) -> bool:
    """Does no error remain, only silent bugs?"""
    return _all_silent(evidence) and (evidence.code == 0 or evidence.stopped)


def _all_silent(evidence: Evidence) -> bool:
    return all(diagnosis["kind"].startswith("silent") for diagnosis in evidence.diagnoses)


def _remaining_bugs(evidence: Evidence) -> str:
    lines = [mutation["site"]["line"] for diagnosis in evidence.diagnoses for mutation in diagnosis["mutations"][:1]]
    places = " and ".join(f"line {line}" for line in dict.fromkeys(lines))
    return f"the silent bugs at {places}: no rewrite could be proved"


def _joined(candidates: Sequence[Candidate]) -> Candidate:
    edits = united(candidate.edits for candidate in candidates)
    checking = united(candidate.checking or candidate.edits for candidate in candidates)
    titles = list(dict.fromkeys(candidate.title for candidate in candidates))
    provable = any(candidate.safety != "safe" for candidate in candidates)
    keeps = min((candidate.keeps for candidate in candidates), key=_LEAST_FIRST.index)
    safety: Safety = "unsafe" if provable else "safe"
    return Candidate("; ".join(titles), safety, edits, provable, keeps, checking if checking != edits else None)


def _judge(candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence | None) -> Proof | None:
    """The proof that the bug is gone and nothing else has changed; None if there is none."""
    if _stopped_early(before, after) or not (after.good or _fails_later(before, after)):
        return None
    if candidate.keeps == "steps":
        return _as_meant(candidate, before, after, reference)
    if candidate.keeps in _OTHER_TRAINING:
        as_meant = _as_meant(candidate, before, after, reference)
        return as_meant or _up_to_the_error(candidate, before, after, reference)
    if candidate.keeps == "values":
        return _now_recorded(candidate, before, after)
    kinds = {diagnosis["kind"] for diagnosis in before.diagnoses}
    if kinds <= _CHANGED_VALUES:
        return _first_only(candidate, before, after)
    return _same_values(candidate, before, after, reference, 1 if _all_silent(before) else None)


def _stopped_early(before: Evidence, after: Evidence) -> bool:
    """Was it stopped, for lack of time, before it came to the point of the error?"""
    return after.stopped and bool(before.code) and len(after.roots) < len(before.roots)


def _fails_later(before: Evidence, after: Evidence) -> bool:
    """Does the program now fail for another reason, and not earlier than before?"""
    old = [identity(diagnosis) for diagnosis in before.diagnoses]
    new = [identity(diagnosis) for diagnosis in after.diagnoses]
    return bool(new) and _all_repaired_but_silent(old, new) and len(after.roots) >= len(before.roots)


def _same_values(
    candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence | None, first: int | None
) -> Proof | None:
    """The rewrite computes the same losses (the `first` ones; None: all), and the right gradients."""
    if reference is not None and not same_roots(before, reference, first):
        if candidate.safety != "safe":
            return None
        return Proof(candidate.title, "not compared: every run of the program gives other values", "not compared")
    if not same_roots(before, after, first):
        return None
    if reference is None or not reference.roots:
        return _without_reference(candidate, before, after)
    return _with_reference(candidate, before, after, reference)


def _without_reference(candidate: Candidate, before: Evidence, after: Evidence) -> Proof | None:
    if candidate.safety != "safe":
        return None
    count = min(len(before.roots), len(after.roots))
    loss = f"unchanged in {_times(count)} up to the error" if count else "there was no backward before the error"
    return Proof(candidate.title, loss, "not compared: the program never got past the error before")


def _with_reference(candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence) -> Proof | None:
    if not same_roots(reference, after):
        return None
    equal, count = same_gradients(reference, after, candidate.keeps == "all")
    if not equal or (candidate.safety != "safe" and count < len(before.roots)):
        return None
    roots = min(len(reference.roots), len(after.roots))
    gradient = f"equal to the original program with copies of its saved tensors, in {_times(count)}"
    return Proof(
        candidate.title, f"unchanged, in {_times(roots)}", gradient if count else "no backward could be compared"
    )


def _judge_part(candidate: Candidate, before: Evidence, after: Evidence) -> Proof | None:
    """Is one of several silent bugs repaired? The gradients can be compared only when the last one is repaired.

    The proof of that round is for all of them.
    """
    old = [identity(diagnosis) for diagnosis in before.diagnoses]
    new = [identity(diagnosis) for diagnosis in after.diagnoses]
    silent = _all_silent(before) and _all_silent(after)
    if not (silent and new and len(new) < len(old) and all(bug in old for bug in new)):
        return None
    if after.code or candidate.keeps not in ("all", "values") or not same_roots(before, after, 1):
        return None
    return Proof(candidate.title, "unchanged in the first backward", "compared when all are repaired: see the last one")


def _judge_one(candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence | None) -> Proof | None:
    """Is one of several errors repaired, and are the others unchanged? The next rounds repair them."""
    old = [identity(diagnosis) for diagnosis in before.diagnoses]
    new = [identity(diagnosis) for diagnosis in after.diagnoses]
    if not new or len(new) >= len(old) or any(bug not in old for bug in new) or candidate.keeps != "all":
        return None
    if reference is None or not (same_roots(before, reference) and same_roots(before, after)):
        return None
    if len(after.roots) < len(before.roots):
        return None
    loss = f"unchanged in {_times(len(after.roots))} up to the error"
    return Proof(candidate.title, loss, "compared when all are repaired: see the last one")


def _same_as_meant(earlier: Evidence | None, reference: Evidence) -> bool:
    """Does the partly repaired program compute the same as the earlier reference run?"""
    if earlier is None or len(earlier.roots) != len(reference.roots):
        return False
    return same_roots(earlier, reference) and same_gradients(earlier, reference)[0]


def _all_repaired_but_silent(old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> bool:
    """Are all bugs repaired? If there were errors, silent bugs may remain for the next round."""
    still_there = [bug for bug in new if bug in old]
    silent = [bug for bug in old if bug[0].startswith("silent")]
    return not still_there or (len(silent) < len(old) and all(bug in silent for bug in still_there))


def _as_meant(candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence | None) -> Proof | None:
    """Another order of steps, or a detach: each step uses the same gradients as in the reference run."""
    if reference is None or not (after.good and reference.good and reference.steps):
        return None
    if not same_roots(before, reference) or not same_training(reference, after):
        return None
    return _of_training(candidate.title, after)


def _of_training(title: str, run: Evidence) -> Proof:
    count = sum(map(len, run.steps.values()))
    steps = "1 step" if count == 1 else f"{count} steps"
    gradient = f"each step uses those of the original program with copies of its saved tensors, in {steps}"
    return Proof(title, f"unchanged, in {_times(len(run.roots))}", gradient)


def _up_to_the_error(
    candidate: Candidate, before: Evidence, after: Evidence, reference: Evidence | None
) -> Proof | None:
    """Another order of steps: everything before the error is the same, and from there on it is another training.

    What was detached must not have been the only way to some weight.
    """
    reached = len(before.roots)
    needed = {"failed": reached, "earlier": reached - 1}.get(candidate.keeps, min(2, reached))
    count = alike(before, after)
    if len(after.roots) < len(before.roots) or count < needed:
        return None
    to_the_end = candidate.keeps == "beginning" or after.good
    if to_the_end and reference is not None and not trains_as_many(reference, after):
        return None
    gradient = "those of the new order: each backward uses the weights of its forward"
    return Proof(candidate.title, f"unchanged in {_times(count)}; from there on it is another training", gradient)


def _first_only(candidate: Candidate, before: Evidence, after: Evidence) -> Proof | None:
    """For a bug that changed values or the training: only the first loss can be compared."""
    if not after.good or candidate.safety != "safe":
        return None
    alike = bool(after.roots) and same_roots(before, after, 1)
    loss = "unchanged in the first backward" if alike else "changed: the bug had changed its values"
    return Proof(candidate.title, loss, "not compared: the bug had changed them without an error")


def _now_recorded(candidate: Candidate, before: Evidence, after: Evidence) -> Proof | None:
    """A write that autograd now records: the same values, and a new gradient."""
    if not after.good or not after.roots or not same_roots(before, after, 1):
        return None
    return Proof(
        candidate.title,
        "unchanged in the first backward",
        "now with the derivative of the write",
    )


def _times(count: int) -> str:
    return "1 backward" if count == 1 else f"{count} backwards"


def _text(path: str) -> str | None:
    from outplace.repair.syntax.files import Unwritable, read

    try:
        return read(path).text
    except Unwritable:
        return None


def _changed(files: Files) -> dict[str, str]:
    return {path: files.text(path) for path in files.paths if files.text(path) != _text(path)}
