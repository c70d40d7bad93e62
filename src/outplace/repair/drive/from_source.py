"""Repairs from the source alone: applies the first candidate after which the analysis finds less, and nothing new."""

from __future__ import annotations

import ast
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from outplace.files.parsable import can_be_repaired
from outplace.knowledge.silent_rules.lists import SAME_VIEW_APPENDED
from outplace.model import Finding, Fix, is_refused, is_silent
from outplace.repair.facts.bug import Bug, Candidate, of_finding
from outplace.repair.facts.location import Style, place_at
from outplace.repair.plan.chooser import propose
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.edits import Conflict, Edit, unified_diff
from outplace.repair.syntax.files import Files
from outplace.source.facts import Span
from outplace.source.project import NO_LIMITS, OutOfTime, within

_LEAST_ROUNDS = 60
_MOST_FIXES = 30
"""If a file has more findings, a report shows no fixes for it."""
_MOST_SECONDS = 3.0
"""CPU time for the fixes of one file in a report."""
MOST_SECONDS_OF_A_ROUND, MOST_SECONDS_OF_A_FILE, _SECONDS_AT_THE_END = 5.0, 8.0, 1.5
"""CPU time for a repair. If a round takes longer, its finding is given up. A part is kept for the end."""
MOST_MEMORY = 320 << 20
"""Bytes that the process may take more than before the repair."""
_DEEPEST = 6

_NOTHING: frozenset[Span] = frozenset()
_Texts = dict[str, str]
_Pairs = list[tuple[Finding, Candidate]]
_Result = tuple[_Texts, list[Finding], _Pairs]
"""The new texts, their findings, and the candidate for each repaired finding."""
Check = Callable[..., Sequence[Finding]]
"""Analyses a file: its path, its text, and the changed texts of other files of the project."""


@dataclass(frozen=True)
class Repaired:
    """A file's new text, the repaired findings (`done`), and the remaining ones (`left`)."""

    text: str
    done: tuple[tuple[Finding, Candidate], ...]
    left: tuple[Finding, ...]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """The new texts of other files that had to change."""
    meanings: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    """For remaining findings, by file and line: the repairs that only the author can choose from."""
    ran_out: bool = False
    """Did the repair take too long, so that what is left was not tried, or not to the end?"""


def repair(
    path: str,
    text: str,
    check: Check,
    is_selected: Callable[[Finding], bool],
    unsafe: bool = False,
    style: Style = "auto",
    others: Callable[[], dict[str, str]] = dict,
    editable: Collection[str] = (),
) -> Repaired:
    """Fixes one finding after another until nothing changes.

    `others` gives the texts of files that import this one or that it imports. `editable` files may change, too.
    """
    return _Repair(path, check, is_selected, unsafe, style, others, editable).run(text)


class _Repair:
    """The repair of one file."""

    def __init__(
        self,
        path: str,
        check: Check,
        is_selected: Callable[[Finding], bool],
        unsafe: bool,
        style: Style,
        others: Callable[[], dict[str, str]],
        editable: Collection[str] = (),
    ) -> None:
        self.path, self.is_selected, self.unsafe, self.style = path, is_selected, unsafe, style
        self._check, self._others, self._editable = check, others, {path, *editable}
        self._files: Files | None = None
        self._tried_alone: set[tuple[str, str]] = set()
        """Findings that could not be repaired alone."""
        self._not_to_fix: set[tuple[str, str]] = set()
        """Findings that must not be fixed, because others of the same tensor cannot be."""
        self._made_for: _Pairs = []
        """The edits of the last `_run`, each with the finding that it was made for."""
        self._file_ends_at, self._limits = math.inf, NO_LIMITS
        self._ran_out = False
        self._start_round()

    def _start_round(self, seconds: float = math.inf) -> None:
        """From now on the repair of one finding may take so long."""
        self._ends_at = min(time.thread_time() + min(seconds, MOST_SECONDS_OF_A_ROUND), self._file_ends_at)

    def _require_time(self) -> None:
        """Raises OutOfTime if the time of this round is over, or the repair takes too much memory."""
        if time.thread_time() >= self._ends_at or self._limits.are_passed():
            raise OutOfTime

    def _is_out_of_time(self) -> bool:
        """Is there no time or memory for another round?"""
        is_over = time.thread_time() >= self._file_ends_at or self._limits.are_passed()
        self._ran_out = self._ran_out or is_over
        return is_over

    @cached_property
    def others(self) -> dict[str, str]:
        """The files around this one, read when the first repair needs them."""
        return self._others()

    def check(self, texts: _Texts) -> list[Finding]:
        """The findings with these texts."""
        elsewhere = {path: text for path, text in texts.items() if path != self.path}
        return list(self._check(self.path, texts[self.path], *([elsewhere] if elsewhere else [])))

    def run(self, text: str) -> Repaired:
        """Fixes what can be fixed. Of one tensor either all writes are fixed, or none."""
        with within(MOST_SECONDS_OF_A_FILE, MOST_MEMORY) as self._limits:
            self._file_ends_at = self._limits.ends_at - _SECONDS_AT_THE_END
            return self._all_repaired(text)

    def _all_repaired(self, text: str) -> Repaired:
        try:
            first = self.check({self.path: text})
            if first and not can_be_repaired(text):
                raise OutOfTime(first)
            result = self._run(text, first)
        except OutOfTime as error:
            return Repaired(text, (), tuple(filter(self.is_selected, error.findings)), ran_out=True)
        while half := self._partly_repaired(text, first, result):
            edits = [candidate for finding, candidate in result.done if _essence(finding) in half]
            half |= {_essence(finding) for finding, candidate in self._made_for if candidate in edits}
            if half <= self._not_to_fix or self._is_out_of_time():
                return Repaired(text, (), tuple(filter(self.is_selected, first)), ran_out=self._ran_out)
            self._not_to_fix |= half
            self._tried_alone.clear()
            result = self._run(text, first)
        return result

    def _partly_repaired(self, text: str, first: list[Finding], result: Repaired) -> set[tuple[str, str]]:
        """Findings that were fixed although another write to the same memory is left: the program fails as before."""
        left = {_essence(finding) for finding in result.left if self._is_to_fix(finding)}
        done = {_essence(finding) for finding, _ in result.done}
        if not left or not done:
            return set()
        files, memory = self._with({self.path: text}), dict[tuple[str, str], frozenset[Span]]()
        for finding in first:
            if self._limits.are_passed():
                return done
            if _essence(finding) in left | done:
                place = place_at(files, of_finding(finding), finding.site)
                trail = place.trail if place is not None else frozenset()
                memory[_essence(finding)] = memory.get(_essence(finding), frozenset()) | trail
        return {item for item in done for other in left if memory.get(item, _NOTHING) & memory.get(other, _NOTHING)}

    def _run(self, text: str, findings: list[Finding]) -> Repaired:
        repaired: _Pairs = []
        self._made_for = []
        texts = {self.path: text}
        given_up: set[tuple[str, str]] = set()
        unsound: set[str] = set()
        """Functions with a silent bug that cannot be fixed. Their errors stay: better than wrong numbers."""
        for _ in range(max(_LEAST_ROUNDS, 2 * len(findings))):  # each round fixes a finding or gives one up
            waiting = self._waiting(findings, given_up, unsound)
            finding = min(waiting, key=lambda waits: not is_silent(waits), default=None)
            if finding is None:
                break
            if self._is_out_of_time():
                break
            result = self._round(texts, finding, waiting, findings)
            if result is None:
                given_up.add(_key(finding))
                self._tried_alone.add(_key(finding))
                unsound |= self._functions_left_wrong(finding, findings)
                continue
            new, after, pairs = result
            self._made_for += pairs
            fixed_counts = Counter(map(_essence, findings)) - Counter(map(_essence, after))
            repaired += [
                (before, _done_about(before, pairs)) for before in findings if _count_off(fixed_counts, before)
            ]
            texts, findings = new, after
            given_up.clear()  # after this edit they may be fixable
        remaining = tuple(finding for finding in findings if self.is_selected(finding))
        meanings = self._all_meanings(texts, remaining, findings)
        ran_out = self._ran_out and bool(remaining)
        return Repaired(texts.pop(self.path), tuple(repaired), remaining, texts, meanings, ran_out)

    def _round(
        self, texts: _Texts, finding: Finding, waiting: list[Finding], findings: list[Finding]
    ) -> _Result | None:
        """Repairs this finding, perhaps with others; None if that cannot be done, or takes too long."""
        self._start_round()
        try:
            together = None if is_silent(finding) else self._repair_together(texts, waiting, findings)
            return together or self._repair_one(texts, finding, findings, 0)
        except OutOfTime:
            self._ran_out = True
            return None

    def _waiting(
        self, findings: list[Finding], given_up: Collection[tuple[str, str]], unsound: Collection[str]
    ) -> list[Finding]:
        """The findings to fix that can be tried now."""
        waiting = [finding for finding in findings if self._is_to_fix(finding) and finding.site.function not in unsound]
        if any(not is_silent(finding) for finding in waiting):
            waiting += [finding for finding in findings if self.is_selected(finding) and _goes_with_errors(finding)]
        refused = {_line(finding) for finding in findings if _is_refused(finding)}
        waiting = [finding for finding in waiting if _essence(finding) not in self._not_to_fix]
        return [
            finding for finding in waiting if _key(finding) not in given_up and not _is_refused_write(finding, refused)
        ]

    def _functions_left_wrong(self, finding: Finding, findings: list[Finding]) -> set[str]:
        """The functions that stay wrong because this silent bug cannot be fixed."""
        if not is_silent(finding) or self.unsafe:
            return set()
        affected = [finding, *(findings if finding.severity == "error" else ())]
        return {wrong.site.function for wrong in affected}

    def _all_meanings(
        self, texts: _Texts, remaining: Iterable[Finding], findings: list[Finding]
    ) -> dict[tuple[str, int], tuple[str, ...]]:
        """For remaining findings, by file and line: the repairs that only the author can choose from."""
        told = {"stepped": 1, "saved": 2}  # the fewest repairs that are worth a line
        unfixed = [] if self.unsafe else [finding for finding in remaining if finding.kind in told]
        self._start_round()
        meanings: dict[tuple[str, int], tuple[str, ...]] = {}
        with contextlib.suppress(OutOfTime):
            for finding in filter(self._is_to_fix, unfixed):
                titles = self._meanings(texts, finding, findings)
                if len(titles) >= told[finding.kind]:
                    meanings[_line(finding)] = titles
        return meanings

    def _meanings(self, texts: _Texts, finding: Finding, before: list[Finding]) -> tuple[str, ...]:
        """The titles of unsafe repairs after which the analysis finds less."""
        self._require_time()
        files = self._with(texts)
        titles: list[str] = []
        for candidate in propose(files, of_finding(finding), self.style, self._neighbours(finding, before)):
            self._require_time()
            new = _edited(files, texts, candidate.edits) if set(candidate.edits) <= self._editable else None
            if new is not None and candidate.title not in titles and _fewer(before, self.check(new)):
                titles.append(candidate.title)
        return tuple(titles)

    def best(
        self, text: str, finding: Finding, findings: list[Finding], seconds: float = math.inf
    ) -> tuple[Fix, str] | None:
        """The best fix for a finding, and the new text; None if there is none, or none was found in this time."""
        self._start_round(seconds)
        try:
            with within(MOST_SECONDS_OF_A_FILE, MOST_MEMORY) as self._limits:
                result = self._repair_one({self.path: text}, finding, findings, 0)
        except Exception:  # the report must not fail because of a fix
            return None
        if result is None:
            return None
        new, candidate = result[0][self.path], result[2][0][1]
        return Fix(candidate.title, candidate.safety, unified_diff(finding.site.file, text, new, context=1)), new

    def _is_to_fix(self, finding: Finding) -> bool:
        return self.is_selected(finding) and (self.unsafe or finding.severity == "error")

    def _repair_together(self, texts: _Texts, waiting: list[Finding], before: list[Finding]) -> _Result | None:
        """Repairs bugs of separate functions together, with the first candidate of each. That needs one analysis."""
        files = self._with(texts)
        code = files.code(self.path)
        if code is None:
            return None
        chosen: dict[ast.AST, tuple[Finding, Candidate]] = {}
        half_way = (time.thread_time() + self._ends_at) / 2
        for finding in waiting:
            if time.thread_time() >= half_way:
                break
            function = _own_function(code, finding)
            if function is None or function in chosen or _key(finding) in self._tried_alone:
                continue
            candidate = next(self._candidates(files, finding, before), None)
            if candidate is not None and _lies_in(code, function, candidate):
                chosen[function] = finding, candidate
        together = list(chosen.values())
        while len(together) > 1:
            self._require_time()
            edits = tuple(edit for _, candidate in together for edit in candidate.edits[self.path])
            new = _edited(files, texts, {self.path: edits})
            after = before if new is None else self.check(new)
            fixed_counts = Counter(map(_essence, before)) - Counter(map(_essence, after))
            if (
                new is not None
                and _fewer(before, after)
                and all(_count_off(fixed_counts, finding) for finding, _ in together)
            ):
                return new, after, together
            together = together[: len(together) // 2]
        return None

    def _repair_one(self, texts: _Texts, finding: Finding, before: list[Finding], depth: int) -> _Result | None:
        """Repairs one finding and adds none. If several operations saved the tensor, this takes several edits."""
        partly: list[tuple[_Texts, list[Finding], Candidate, Finding]] = []
        for candidate, new in self._tries(texts, finding, before) if depth <= _DEEPEST else ():
            after = self.check(new)
            if _fewer(before, after) and _is_gone(finding, before, after):
                return new, after, [(finding, candidate)]
            uncovered = _uncovered(finding, before, after)
            moved = [other for other in after if _same_write(finding, other)] or uncovered
            if candidate.safety != "safe" or not moved or len(after) != len(before):
                continue
            at_once = bool(uncovered) and _rewrites(candidate, finding, texts)
            result = self._repair_one(new, moved[0], after, depth + 1) if at_once else None
            if result is not None:  # the best candidate, and then the next write that PyTorch would refuse
                return result[0], result[1], [(finding, candidate)]
            partly += [] if at_once else [(new, after, candidate, moved[0])]
        for new, after, candidate, rest in partly:
            result = self._repair_one(new, rest, after, depth + 1)
            if result is not None:
                return result[0], result[1], [(finding, candidate)]
        return None

    def _tries(self, texts: _Texts, finding: Finding, before: list[Finding]) -> Iterator[tuple[Candidate, _Texts]]:
        files = self._with(texts)
        for candidate in self._candidates(files, finding, before):
            new = _edited(files, texts, candidate.edits)
            if new is not None:
                yield candidate, new

    @staticmethod
    def _neighbours(finding: Finding, findings: Iterable[Finding]) -> tuple[Bug, ...]:
        return tuple(of_finding(other) for other in findings if other is not finding)

    def _with(self, texts: _Texts) -> Files:
        self._files = Files({**self.others, **texts}, may_read=False, like=self._files)
        return self._files

    def _candidates(self, files: Files, finding: Finding, before: list[Finding]) -> Iterator[Candidate]:
        self._require_time()
        for candidate in propose(files, of_finding(finding), self.style, self._neighbours(finding, before)):
            self._require_time()
            allowed = candidate.safety == "safe" or (self.unsafe and candidate.safety == "unsafe")
            if allowed and not candidate.checking and set(candidate.edits) <= self._editable:
                yield candidate


def _edited(files: Files, texts: _Texts, edits: Mapping[str, tuple[Edit, ...]]) -> _Texts | None:
    """The texts with these edits; None if the edits overlap or the result is not valid Python."""
    try:
        edited = files.edited(edits)
    except Conflict:
        return None
    return None if edited is None else texts | {path: edited.text(path) for path in edits}


def _own_function(code: Code, finding: Finding) -> Function | None:
    """The outermost function that contains the whole bug; None if a step or another function takes part in it."""
    saver = finding.saved_by or finding.site
    node = code.at(finding.site) if finding.site.file == saver.file == code.path else None
    if node is None or finding.kind == "stepped":
        return None
    around = [outer for outer in code.above(node) if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)]
    return around[-1] if around and around[-1].lineno <= saver.line <= (around[-1].end_lineno or 0) else None


def _lies_in(code: Code, function: Function, candidate: Candidate) -> bool:
    """Does it edit only this function?"""
    start, end = code.span(function)
    edits = candidate.edits.get(code.path, ())
    return len(candidate.edits) == 1 and bool(edits) and all(start <= edit.start <= edit.end <= end for edit in edits)


def _goes_with_errors(finding: Finding) -> bool:
    """Is it a warning that must be fixed with the errors? Without them nothing would show this bug."""
    views = finding.code == SAME_VIEW_APPENDED.code
    return finding.severity == "warning" and (finding.kind == "silent-data" or views)


def _is_refused(finding: Finding) -> bool:
    """Does PyTorch certainly refuse the operation itself?"""
    return is_refused(finding) and finding.severity == "error"


def _line(finding: Finding) -> tuple[str, int]:
    return finding.site.file, finding.site.line


def _is_refused_write(finding: Finding, refused: Collection[tuple[str, int]]) -> bool:
    """Is it a write that PyTorch refuses? It overwrites nothing until that is fixed."""
    return finding.code.startswith("OUT2") and _line(finding) in refused


def _same_write(finding: Finding, other: Finding) -> bool:
    """The same write, which now hurts another operation, or hurts one now that PyTorch does not refuse it."""
    if other.kind == "saved" and _is_refused(finding):
        return _essence(other)[1] == _essence(finding)[1]
    if _essence(other) != _essence(finding) or not other.saved_by or not finding.saved_by:
        return False
    return other.saved_by.text != finding.saved_by.text


def _uncovered(finding: Finding, before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """The later writes that PyTorch meets now that it does not refuse this one."""
    if not _is_refused(finding) or not _is_gone(finding, before, after):
        return []
    known = set(map(_essence, before))
    new = [other for other in after if _essence(other) not in known]
    by_the_repair = finding.kind not in _LEAVES and any(other.kind in _LEAVES for other in new)
    # the author wrote no leaf: to write one outside of the graph is not what is meant
    return [] if by_the_repair else new


_LEAVES = ("leaf", "leaf-view")


def _rewrites(candidate: Candidate, finding: Finding, texts: _Texts) -> bool:
    """Does it change the writing line itself? Else the write stays, and reaches what it did not reach before."""
    text, edits = texts.get(finding.site.file, ""), candidate.edits.get(finding.site.file, ())
    return any(text.count("\n", 0, edit.start) + 1 == finding.site.line for edit in edits)


def _essence(finding: Finding) -> tuple[str, str]:
    """What identifies a finding, without the clones that a repair adds to its line."""
    return finding.kind, finding.site.text.replace(".clone()", "")


def _count_off(fixed_counts: Counter[tuple[str, str]], finding: Finding) -> bool:
    """Is this finding gone? Then counts it off."""
    if fixed_counts[_essence(finding)] <= 0:
        return False
    fixed_counts[_essence(finding)] -= 1
    return True


def _done_about(finding: Finding, pairs: _Pairs) -> Candidate:
    """The candidate that repaired a finding: its own, or that of a finding with the same saver or function."""
    direct = [candidate for other, candidate in pairs if other is finding]
    alike = [candidate for other, candidate in pairs if finding.saved_by and other.saved_by == finding.saved_by]
    beside = [candidate for other, candidate in pairs if other.site.function == finding.site.function]
    return [*direct, *alike, *beside, pairs[0][1]][0]


def _key(finding: Finding) -> tuple[str, str]:
    return finding.kind, f"{finding.site.line} {finding.site.text}"


def _fewer(before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Are there fewer findings now, and none that is new?"""
    return len(after) < len(before) and not Counter(map(_essence, after)) - Counter(map(_essence, before))


def _is_gone(finding: Finding, before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Is this one among those that are gone?"""
    return (Counter(map(_essence, before)) - Counter(map(_essence, after)))[_essence(finding)] > 0


def with_fixes(path: str, text: str, findings: Sequence[Finding], check: Check) -> list[Finding]:
    """The findings with the fixes that `outplace fix` would make."""
    if len(findings) > _MOST_FIXES or not can_be_repaired(text):
        return list(findings)
    with_fix: list[Finding] = []
    ends_at = time.thread_time() + _MOST_SECONDS
    for finding in findings:
        seconds = ends_at - time.thread_time()
        has_time = finding.fix is None and seconds > 0
        fixed = fix_of(path, text, finding, findings, check, seconds=seconds) if has_time else None
        with_fix.append(replace(finding, fix=fixed[0]) if fixed else finding)
    return with_fix


def fix_of(
    path: str,
    text: str,
    finding: Finding,
    findings: Sequence[Finding],
    check: Check,
    others: Callable[[], dict[str, str]] = dict,
    seconds: float = math.inf,
) -> tuple[Fix, str] | None:
    """The best fix for one of a file's findings, and the new text; None if none is found in this CPU time.

    The fix of a warning is unsafe: the code may be right as it is.
    """
    best = _Repair(path, check, lambda _: True, True, "auto", others).best(text, finding, list(findings), seconds)
    if best is None or finding.severity == "error" or best[0].safety != "safe":
        return best
    return replace(best[0], safety="unsafe"), best[1]
