"""Modules whose activations could be recomputed in backward: less memory for more time."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from outplace.reclaim.observe.recording import MOST_FRAMES, Call, Instruction, Operation, Recording
from outplace.reclaim.observe.timeline import Change, Life
from outplace.reclaim.rules.effects import Effects
from outplace.reclaim.rules.holders import node_at, site_of
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files

HELPER = "outplace.recompute"


@dataclass
class Run:
    """One call of a module from the user's code, and the operations of its forward."""

    call: Call
    numbers: list[int] = field(default_factory=list)


class Blocks:
    """All suggestions of this kind for one recording."""

    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording, self._files, self._effects = recording, files, Effects(files)
        self._made: dict[int, list[int]] = {}
        """For each operation the storages it made."""
        for number, storage in enumerate(recording.storages):
            if storage.maker is not None:
                self._made.setdefault(storage.maker, []).append(number)
        self._reached: dict[int, int] = {}
        """For each node the operation at which a backward first came to it."""
        self._written: dict[int, list[int]] = {}
        """For each storage the operations that wrote into it."""
        for number, operation in enumerate(recording.operations):
            if operation.backward and operation.node is not None:
                self._reached.setdefault(operation.node, number)
            if operation.name.endswith("_") and not self._is_of_torch(operation):
                for tensor in operation.outputs or operation.inputs:
                    self._written.setdefault(tensor.storage, []).append(number)
        self._named = {held.storage: held.moment for held in recording.held}
        """The last moment at which a name was seen to stand for a storage."""

    def suggestions(self) -> Iterator[Suggestion]:
        """One suggestion for each call whose every run can be repeated."""
        for instruction, runs in self._runs().items():
            found = node_at(self._files, instruction)
            if found is None or not isinstance(found[1], ast.Call) or not found[1].args:
                continue
            changes = [self._change(run) for run in runs]
            if any(change is None for change in changes) or not any(change.gaps for change in changes if change):
                continue
            if any(self._has_effects(run) for run in runs):
                continue
            suggestion = self._suggestion(found[0], found[1], [change for change in changes if change])
            if suggestion is not None:
                yield suggestion

    def _runs(self) -> dict[Instruction, list[Run]]:
        runs: dict[int, Run] = {}
        for number, operation in enumerate(self._recording.operations):
            if not operation.backward:
                for call in operation.calls:
                    if call.direct:
                        runs.setdefault(call.number, Run(call)).numbers.append(number)
        groups: dict[Instruction, list[Run]] = {}
        for run in runs.values():
            groups.setdefault(self._recording.places[run.call.place][0], []).append(run)
        return groups

    def _is_of_torch(self, operation: Operation) -> bool:
        """Is it part of a torch module, such as the batch counter of a batch norm?"""
        return bool(operation.calls) and bool(self._recording.modules[operation.calls[0].module].kind)

    # -- what the run has shown ---------------------------------------------------------------------------------------

    def _change(self, run: Run) -> Change | None:
        """The storages that are free between forward and backward; None if the block must not run twice."""
        recording, numbers = self._recording, set(run.numbers)
        nodes = {recording.operations[number].node for number in run.numbers}
        first, last = run.numbers[0], run.numbers[-1]
        reached = (self._reached.get(node, -1) for node in nodes if node is not None)
        backward = min((number for number in reached if number > last), default=None)
        if backward is None:
            return Change()  # without gradients it is a plain call
        inputs = {
            tensor.storage
            for number in run.numbers
            for tensor in recording.operations[number].inputs
            if recording.storages[tensor.storage].maker not in numbers
        }
        if any(self._is_written(storage, first, backward) for storage in inputs):
            return None
        gaps = {}
        for storage in (storage for number in run.numbers for storage in self._made.get(number, ())):
            gap = self._gap(storage, nodes, last, backward)
            if gap is not None:
                gaps[storage] = gap
        computed = {storage for storage in inputs if recording.storages[storage].maker is not None}
        return Change(gaps=gaps, longer=dict.fromkeys(computed, backward), keeps=frozenset(inputs))

    def _is_written(self, storage: int, start: int, end: int) -> bool:
        writes = self._written.get(storage, [])
        return bisect_left(writes, start) < bisect_left(writes, end)

    def _gap(self, storage: int, nodes: set[int | None], last: int, backward: int) -> Life | None:
        """The time in which only nodes of this block keep the storage."""
        savers = self._recording.savers.get(storage)
        died = self._recording.storages[storage].died
        if not savers or any(saved.node not in nodes for saved in savers) or (died is not None and died < backward):
            return None
        readers = (n for n in self._recording.readers.get(storage, ()) if not self._recording.operations[n].backward)
        start = max([last, *readers]) + 1
        if self._named.get(storage, -1) >= start:
            return None
        return (start, backward - 1) if start < backward else None

    # -- what the source says -----------------------------------------------------------------------------------------

    def _has_effects(self, run: Run) -> bool:
        """Does running the forward twice have side effects?"""
        outside = len(self._recording.places[run.call.place])
        inside: dict[Instruction, None] = {}
        for number in run.numbers:
            operation = self._recording.operations[number]
            for call in operation.calls:
                if not self._recording.modules[call.module].known:
                    return True
                if call.number == run.call.number:
                    break
            place = self._recording.places[operation.place]
            # Of a place with so many frames the outermost are missing: then it is not known which are inside.
            depth = len(place) if len(place) >= MOST_FRAMES else len(place) - outside
            inside.update(dict.fromkeys(place[: max(0, depth)]))
        return any(self._effects.at(instruction) for instruction in inside)

    def _suggestion(self, code: Code, call: ast.Call, changes: list[Change]) -> Suggestion | None:
        imported = code.module_name("outplace")
        if imported is None and "outplace" in code.names(code.tree):
            return None
        helper = f"{imported}.recompute" if imported else HELPER
        start, end = code.span(call)
        name_end = code.span(call.func)[1]
        bracket = code.text.index("(", name_end)
        edits = [Edit(start, start, f"{helper}("), Edit(name_end, bracket + 1, ", "), *_importing(code)]
        before = code.text[start:end]
        after = f"{helper}({before[: name_end - start]}, {code.text[bracket + 1 : end]}"
        whole = Change(
            gaps={storage: gap for change in changes for storage, gap in change.gaps.items()},
            longer={storage: until for change in changes for storage, until in change.longer.items()},
            keeps=frozenset(storage for change in changes for storage in change.keeps),
        )
        return Suggestion(
            "recompute",
            site_of(code, call),
            before,
            after,
            "what it keeps is computed again, from the same input, random numbers and buffers",
            {code.path: tuple(edits)},
            whole,
            "its forward is run twice",
        )


def _importing(code: Code) -> list[Edit]:
    """The edit that imports outplace; none if the file already does."""
    needed = code.importing("outplace")
    for node in code.tree.body if needed else ():
        names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else names
        if any(name.split(".")[0] == "torch" for name in names):
            edit = code.before(node, "import outplace")
            return [edit] if edit is not None else needed
    return needed
