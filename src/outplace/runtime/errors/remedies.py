"""The fixes of a diagnosis: a diff if a rewrite is known, else advice."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

from outplace.files.naming import under_cwd
from outplace.knowledge.by_hand import FLAGGED_KERNELS
from outplace.knowledge.errors import recognise
from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import keeps_result
from outplace.knowledge.traits import inplace_position
from outplace.model import Diagnosis, Finding, Fix, SavedTensor, Site
from outplace.repair.drive.from_source import fix_of
from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.plan.chooser import propose
from outplace.repair.syntax.edits import unified_diff
from outplace.repair.syntax.files import Files
from outplace.runtime.locate.sites import Located, full_path, source_tree
from outplace.runtime.record.log import SENT
from outplace.runtime.record.user_files import own_files
from outplace.source.analysis import check_file
from outplace.source.project import Project

_ADVICE: dict[str, tuple[str, ...]] = {
    "saved": ("Keep what was saved: write into a copy (`y = x.clone()`), or compute the new value out of place.",),
    "stepped": (
        "Run every backward that needs the old parameters before the optimizer steps.",
        "Run the forward again after the step, or detach what must not be trained by this loss.",
    ),
    "multi-view": ("Compute out of place and torch.stack or torch.cat the parts, or write by an index of the base.",),
    "nograd-view": ("Make the view and write it in the same mode: both inside the no_grad block or both outside.",),
    "custom-view": ("Write out of place after the Function, or return a clone from its forward.",),
    "inference": ("Clone the tensor outside inference_mode, or use torch.no_grad() instead.",),
    "out-arg": ("Bind the result to a name instead of passing `out=`.",),
    "expanded": ("Write out of place, or clone() the expanded tensor first.",),
    "shape-dtype": ("Write out of place: a new tensor may have another shape or dtype.",),
    "overlap": ("clone() the operand that shares the target's memory.",),
    "detached": ("Use `y = y.detach()`, which leaves the graph's own tensor alone.",),
}

_VALUE_ADVICE = {
    "leaf": "For a value in the graph: compute a new tensor and use it from here on.",
    "leaf-view": "For a value in the graph: write into a copy (`w2 = w.clone()`), or use torch.where / index_put.",
}
_UPDATE_ADVICE = "For an update or initialisation: do it under `with torch.no_grad():`."
"""A write to a leaf has two possible intentions. Each advice is given unless a rewrite covers its case."""

SENT_ADVICE = "Run the backward before the model's next forward, or build DDP with `broadcast_buffers=False`."

_MOST_FILES = 200
_MOST_SECONDS = 4.0
"""CPU time for the fix that `check` knows."""
_MOST_REWRITES = 3
_ITEM_ADVICE = "Write the item into a copy, or build the value with torch.where, masked_fill or index_put."
_STACK_ADVICE = "Collect the parts in a list and torch.stack them once at the end."
_FLAG_ADVICE = "Build the module with `inplace=False`."
_CALL_ADVICE = "Call it without `inplace=True`, and use what it returns."
_WRITTEN_ADVICE = (
    "Write the parameters after the backward that needs their old values.",
    "Let the forward use a copy of them: `weight.clone()`.",
)
"""For parameters that no optimizer has stepped."""


def fixes_for(
    kind: str,
    writes: Iterable[tuple[str, Located | None]],
    apart: bool,
    through_view: bool = False,
    tensor: str | None = None,
    error: str = "",
    saved_by: Sequence[SavedTensor] = (),
) -> tuple[Fix, ...]:
    """The fixes, the safe ones first. (A write through a view changes its base too; a new tensor does not.)"""
    bug = Bug(kind, (), _saver_sites(saved_by), tensor, error=error, cause=_cause(saved_by), from_run=True)
    writes = list(writes)
    operations = [operation for operation, _ in writes]
    sent = _suggestions([SENT_ADVICE]) if SENT in operations else ()
    own_writes = [(operation, located) for operation, located in writes if operation != SENT]
    if sent and not own_writes:
        return sent
    fixes: dict[Any, Fix] = {}
    if apart:
        fixes[_STACK_ADVICE] = Fix(_STACK_ADVICE, "suggestion")
    rewrites = _add_fixes_of_writes(fixes, bug, own_writes, through_view)
    advice = _WRITTEN_ADVICE if _stepped_by_hand(kind, operations) else _advice(kind, bool(fixes), rewrites)
    if not rewrites:
        files = {located.site.file: located.filename for _, located in own_writes if located}
        sites = [located.site for _, located in own_writes if located]
        fixes = {fix.title: fix for fix in _fixes_of_check(BY_NAME[kind].code, sites, files)} | fixes
    for suggestion in _suggestions(advice):
        fixes.setdefault(suggestion.title, suggestion)
    match = recognise(error) if not fixes else None
    if match is not None:
        return _suggestions(match.entry.remedies)
    return (*_safe_first(fixes.values(), rewrites), *sent)


def _safe_first(fixes: Iterable[Fix], rewrites: list[_Rewrite]) -> list[Fix]:
    """The safe fixes first. Beside them, a rewrite that only a run could verify is left out."""
    ordered = sorted(fixes, key=lambda fix: fix.safety != "safe")
    unverified = [rewrite.fix for rewrite in rewrites if rewrite.candidate.provable]
    has_safe = bool(ordered) and ordered[0].safety == "safe"
    return [fix for fix in ordered if fix.safety == "safe" or not (has_safe and fix in unverified)]


def _suggestions(advice: Iterable[str]) -> tuple[Fix, ...]:
    """Each as a fix. Reports write "or" before the second one themselves."""
    bare = [text.removeprefix("Or ") for text in advice]
    return tuple(Fix(text[:1].upper() + text[1:], "suggestion") for text in bare)


def _add_fixes_of_writes(
    fixes: dict[Any, Fix], bug: Bug, writes: Iterable[tuple[str, Located | None]], through_view: bool
) -> list[_Rewrite]:
    """Adds the rewrites of each write, or advice on a write that has none. Returns the rewrites."""
    program = _Program()
    rewrites: list[_Rewrite] = []
    for operation, located in _once(writes):
        here = _rewrites_at(bug, located, through_view, program)
        for rewrite in here:
            fix = rewrite.fix
            once = rewrite.candidate.once and (fix.title, located.filename, located.site.function)
            fixes.setdefault(once or fix.diff or fix.title, fix)
        if not here and (advice := _advice_at(bug, operation, located)) is not None:
            fixes.setdefault(advice, Fix(advice, "suggestion"))
        rewrites += here
    return rewrites


def _stepped_by_hand(kind: str, operations: list[str]) -> bool:
    """Were the parameters written by the program itself, and by no optimizer?"""
    return kind == "stepped" and bool(operations) and not any(name.endswith(".step") for name in operations)


def fixes_of_silent(diagnosis: Diagnosis, remedy: str) -> tuple[Fix, ...]:
    """The first rewrite that `--fix` would try, if it is safe; else what `check` offers, and the rule's advice."""
    bug = _silent_bug(diagnosis)
    sources = {site.file: site.file for site in (*bug.writes, *(site for site, _ in bug.savers))}
    rewrites = _rewrites(bug, _Program().files(sources), False, most=1) if bug.writes else []
    fixes = tuple(rewrite.fix for rewrite in rewrites if rewrite.fix.safety == "safe")
    if not fixes and (bug.rule is None or bug.rule.fix):
        fixes = _fixes_of_check(diagnosis.code, bug.writes, sources)
    return fixes if any(fix.safety == "safe" for fix in fixes) else (*fixes, Fix(remedy, "suggestion"))


def _silent_bug(diagnosis: Diagnosis) -> Bug:
    """A silent bug as repairs see it."""
    writes = tuple(mutation.site for mutation in diagnosis.mutations if mutation.site)
    saved_by = [saved for saved in (diagnosis.saved_by, *diagnosis.also_saved_by) if saved is not None]
    return Bug(
        diagnosis.kind,
        writes,
        _saver_sites(saved_by),
        diagnosis.tensor.name,
        cause=diagnosis.cause or _cause(saved_by),
        optimizer_line=diagnosis.optimizer_at.line if diagnosis.optimizer_at else None,
        from_run=True,
    )


def _saver_sites(saved_by: Sequence[SavedTensor]) -> tuple[tuple[Site, str], ...]:
    return tuple((saved.site, saved.saved_as) for saved in saved_by if saved.site)


def _cause(saved_by: Sequence[SavedTensor]) -> str:
    return "result" if saved_by and keeps_result(saved_by[0].node, saved_by[0].saved_as) else ""


def _fixes_of_check(code: str, sites: Iterable[Site], compiled: dict[str, str]) -> tuple[Fix, ...]:
    """The fix that `outplace check` offers for a finding on one of these lines."""
    lines = {(site.file, site.line) for site in sites}
    for path, filename in compiled.items():
        text = "".join(source_tree(filename).lines)
        try:
            findings = _findings(path, text)
            for finding in findings:
                if finding.code == code and (finding.site.file, finding.site.line) in lines:
                    fixed = fix_of(path, text, finding, findings, _findings, seconds=_MOST_SECONDS)
                    if fixed is not None:
                        return (replace(fixed[0], diff=unified_diff(under_cwd(path), text, fixed[1], 1)),)
        except Exception:  # a failed analysis must not lose the diagnosis
            continue
    return ()


def _findings(path: str, text: str, elsewhere: Mapping[str, str] | None = None) -> list[Finding]:
    return check_file(path, text, Project((), elsewhere)).all_findings()


def _advice(kind: str, has_fixes: bool, rewrites: list[_Rewrite]) -> Iterator[str]:
    """The advice that no rewrite covers. The two intentions of a write to a leaf count separately."""
    if kind in _VALUE_ADVICE:
        ways = {rewrite.candidate.is_update for rewrite in rewrites}
        yield from [_VALUE_ADVICE[kind]] if False not in ways else []
        yield from [_UPDATE_ADVICE] if True not in ways else []
    elif not has_fixes:
        yield from _ADVICE.get(kind, ())


def _once(writes: Iterable[tuple[str, Located | None]]) -> list[tuple[str, Located]]:
    return list({(located.filename, located.site): (op, located) for op, located in writes if located}.values())


class _Program:
    """The program's source, read for the first rewrite. Other files show what a module returns."""

    @cached_property
    def sources(self) -> dict[str, str]:
        """The files of the loaded modules."""
        loaded = [
            vars(module).get("__file__") for module in list(sys.modules.values()) if isinstance(module, ModuleType)
        ]
        own = {full_path(path) for path in loaded if isinstance(path, str) and own_files[path]}
        paths = sorted(path for path in own if path.endswith(".py"))
        return {path: "".join(linecache.getlines(path)) for path in paths[:_MOST_FILES]}

    def files(self, compiled: dict[str, str]) -> Files:
        """All source files. Those in `compiled` have the text and name under which they were compiled."""
        here = {path: "".join(source_tree(filename).lines) for path, filename in compiled.items()}
        return Files({**self.sources, **here}, may_read=False)


class _Rewrite(NamedTuple):
    """A rewrite that `--fix` would try, and how a report shows it."""

    candidate: Candidate
    fix: Fix


def _rewrites_at(bug: Bug, located: Located, through_view: bool, program: _Program) -> list[_Rewrite]:
    if located.statement is None or bug.kind == "stepped":
        return []
    files = program.files({located.site.file: located.filename})
    return _rewrites(replace(bug, writes=(located.site,)), files, through_view)


def _advice_at(bug: Bug, operation: str, located: Located) -> str | None:
    """Advice on one write that has no rewrite."""
    if located.statement is None or bug.kind == "stepped":
        return None
    if operation == "__setitem__" and bug.kind == "saved":
        return _ITEM_ADVICE
    if isinstance(located.node, ast.Call) and _has_flag(operation.rstrip("_")):
        return _CALL_ADVICE if any(keyword.arg == "inplace" for keyword in located.node.keywords) else _FLAG_ADVICE
    return None


def _rewrites(bug: Bug, files: Files, through_view: bool, most: int = _MOST_REWRITES) -> list[_Rewrite]:
    """The first rewrites that `--fix` would try, as diffs."""
    found: dict[str, _Rewrite] = {}
    try:
        for candidate in islice(propose(files, bug), most):
            edited = files.edited(candidate.edits)
            if edited is not None and candidate.title not in found:
                diffs = [
                    unified_diff(under_cwd(path), files.text(path), edited.text(path), 1) for path in candidate.edits
                ]
                safety = "unsafe" if through_view else candidate.safety
                found[candidate.title] = _Rewrite(candidate, Fix(candidate.title, safety, "".join(diffs)))
    except Exception:  # a failed rewrite must not lose the diagnosis
        return []
    return list(found.values())


def _has_flag(operation: str) -> bool:
    """Does the operation's function take `inplace=True`?"""
    return inplace_position(operation) is not None or operation in FLAGGED_KERNELS
