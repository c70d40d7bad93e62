"""Operations whose result could take the memory of an input. Both the run and the source must show that it is safe."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outplace.knowledge.ops import lookup
from outplace.knowledge.traits import inplace_position
from outplace.reclaim.observe.recording import LEAST_BYTES, Instruction, Operation, Recording, Saved, Tensor
from outplace.reclaim.observe.timeline import Change
from outplace.reclaim.rules import inplace_forms
from outplace.reclaim.rules.holders import made_by_own_functions, may_overwrite, node_at, site_of
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files

BY_RESULT = {"leaky_relu"}
"""Operations that keep their input, and whose in-place form takes the same gradient, to the bit, from its result.

`elu_` and its kin do so too, but compute it in another way and round otherwise.
"""


@dataclass(frozen=True)
class Reuse:
    """One run of an operation, and the position of the input that may be overwritten."""

    number: int
    operation: Operation
    position: int
    freed: Tensor
    result: Tensor
    by_result: bool
    """The operation keeps its input; its in-place form keeps its result instead."""
    at_once: bool
    """Did the input go as soon as the operation was over?"""


Key = tuple[str, str, Instruction]
"""Where a change would be made: at an expression ("line") or where a module is made ("module")."""


class Reuses:
    """All suggestions of this kind for one recording."""

    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording, self._files = recording, files
        self._called = {
            found[1]
            for place in {recording.places[op.place][0] for op in recording.operations if recording.places[op.place]}
            if (found := node_at(files, place)) is not None
        }
        """The expressions of the user's code that were seen to run."""
        self._own_results: dict[tuple[int, int | None, int], bool] = {}
        """Is what is made at one place, in a module, free for another? Asked once for each step."""

    def suggestions(self) -> Iterator[Suggestion]:
        """One suggestion for each place where every run was safe."""
        groups: dict[Key, list[int]] = {}
        for number, operation in enumerate(self._recording.operations):
            if not operation.backward and (key := self._key(operation)) is not None:
                groups.setdefault(key, []).append(number)
        for key, numbers in groups.items():
            if all(self._result_size(number) < LEAST_BYTES for number in numbers):
                continue
            reuses = [self._reuse(number) for number in numbers]
            if all(reuses):
                suggestion = self._suggestion(key, [reuse for reuse in reuses if reuse is not None])
                if suggestion is not None:
                    yield suggestion

    def _result_size(self, number: int) -> int:
        return sum(
            self._recording.storages[output.storage].nbytes for output in self._recording.operations[number].outputs
        )

    def _key(self, operation: Operation) -> Key | None:
        if not self._recording.places[operation.place]:
            return None
        if operation.calls:
            module = self._recording.modules[operation.calls[0].module]
            if (
                inplace_position(module.kind) is not None
                and module.inplace is False
                and module.kind in inplace_forms.spelled(operation.name)
            ):
                made_at = self._recording.places[module.place] if module.place >= 0 else ()
                return ("module", operation.name, made_at[0]) if made_at else None
            if module.kind:
                return None  # inside a module of torch's own: not the user's to rewrite
        twin = lookup(f"{operation.name}_")
        if twin is None or twin.writes is None:
            return None
        return ("line", operation.name, self._recording.places[operation.place][0])

    # -- what the run has shown ---------------------------------------------------------------------------------------

    def _reuse(self, number: int) -> Reuse | None:
        operation = self._recording.operations[number]
        if len(operation.outputs) != 1:
            return None
        result = operation.outputs[0]
        if self._recording.storages[result.storage].maker != number:
            return None
        for position, tensor in enumerate(operation.inputs):
            found = self._reusable(number, operation, position, tensor, result)
            if found is not None:
                return found
        return None

    def _reusable(
        self, number: int, operation: Operation, position: int, freed: Tensor, result: Tensor
    ) -> Reuse | None:
        """The reuse of one input's memory for the result; None where the run shows that it is not safe."""
        others = [tensor for place, tensor in enumerate(operation.inputs) if place != position]
        if self._is_owned(freed) or any(other.storage == freed.storage for other in others):
            return None
        if not self._takes_same_memory(freed, result):
            return None
        savers = self._recording.savers.get(freed.storage, [])
        later = [self._recording.operations[n] for n in self._recording.readers[freed.storage] if n > number]
        if not _are_of_its_backward(operation, savers, later):
            return None
        died = self._recording.storages[freed.storage].died
        at_once = died is not None and died <= number
        by_result = bool(savers or later)
        if by_result and operation.name not in BY_RESULT:
            return None
        if not (at_once or by_result) and self._has_aliases(freed.storage):
            return None
        return Reuse(number, operation, position, freed, result, by_result, at_once)

    def _is_owned(self, tensor: Tensor) -> bool:
        """Does its memory belong to more than this tensor: to a base, a hook, a trained leaf, or the time before?"""
        storage = self._recording.storages[tensor.storage]
        is_part = tensor.view and not tensor.fills(storage.nbytes)
        return is_part or tensor.watched or (tensor.leaf and tensor.requires_grad) or storage.maker is None

    def _takes_same_memory(self, freed: Tensor, result: Tensor) -> bool:
        size = self._recording.storages[freed.storage].nbytes
        return freed.fits(result) and size == self._recording.storages[result.storage].nbytes and size != 0

    def _has_aliases(self, storage: int) -> bool:
        readers = (self._recording.operations[number] for number in self._recording.readers.get(storage, ()))
        return any(storage in [tensor.storage for tensor in reader.outputs] for reader in readers)

    # -- what the source says -----------------------------------------------------------------------------------------

    def _suggestion(self, key: Key, reuses: list[Reuse]) -> Suggestion | None:
        if not all(self._made_by_own_functions(reuse) for reuse in reuses):
            return None
        if key[0] == "module":
            return self._at_module(key[2], reuses)
        return self._at_line(reuses)

    def _maker(self, reuse: Reuse) -> Operation:
        maker = self._recording.storages[reuse.freed.storage].maker
        assert maker is not None
        return self._recording.operations[maker]

    def _made_by_own_functions(self, reuse: Reuse) -> bool:
        maker, user = self._maker(reuse), reuse.operation
        key = (maker.place, maker.calls[0].module if maker.calls else None, user.place)
        if key not in self._own_results:
            self._own_results[key] = made_by_own_functions(self._files, self._recording, maker, user)
        return self._own_results[key]

    def _at_line(self, reuses: list[Reuse]) -> Suggestion | None:
        if len({reuse.position for reuse in reuses}) != 1:
            return None
        operation = reuses[0].operation
        found = node_at(self._files, self._recording.places[operation.place][0])
        if found is None:
            return None
        code, node = found
        position = reuses[0].position if len(operation.inputs) > 1 else None
        form = inplace_forms.in_place(code, node, operation.name, position)
        if form is None or not may_overwrite(self._files, code, form.operand):
            return None
        return self._made(code, node, form.edits, form.before, form.after, reuses)

    def _at_module(self, made_at: Instruction, reuses: list[Reuse]) -> Suggestion | None:
        found = node_at(self._files, made_at)
        kind = self._recording.modules[reuses[0].operation.calls[0].module].kind
        if found is None or not isinstance(found[1], ast.Call) or called_name(found[1]) != kind:
            return None
        code, call = found[0], found[1]
        edit = inplace_forms.flagged(code, call)
        if edit is None or not self._all_calls_seen(code, call, made_at):
            return None
        if any(reuse.position != 0 or not self._operand_is_free(reuse) for reuse in reuses):
            return None
        before, start = code.segment(call), code.span(call)[0]
        after = before[: edit.start - start] + edit.text + before[edit.end - start :]
        return self._made(code, call, (edit,), before, after, reuses)

    def _all_calls_seen(self, code: Code, call: ast.Call, made_at: Instruction) -> bool:
        """Did every line run that calls such a module? A line that did not could need its input."""
        recording = self._recording
        modules = [m for m in recording.modules if m.place >= 0 and recording.places[m.place][:1] == (made_at,)]
        names = {module.name for module in modules if module.name.isidentifier()}
        statement = code.parents.get(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(target, ast.Name):
            return False  # handed around by a name: who knows where to
        if isinstance(target, ast.Attribute):
            names.add(target.attr)
        return all(self._is_seen(home, node) for name in names for home, node in self._loads(name))

    def _loads(self, name: str) -> Iterator[tuple[Code, ast.Attribute]]:
        for home in self._files.codes(name):
            for node in ast.walk(home.tree):
                if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
                    yield home, node

    def _is_seen(self, home: Code, node: ast.Attribute) -> bool:
        parent = home.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node and parent in self._called
        return called or _is_a_function(node)

    def _operand_is_free(self, reuse: Reuse) -> bool:
        """Is the module's input made inside the calling container, or unused in the user's code that passes it?"""
        operation, maker = reuse.operation, self._maker(reuse)
        made_in = {call.number for call in maker.calls}
        for call in operation.calls:
            if call is not operation.calls[0] and call.number in made_in:
                return True
            if call.direct:
                found = node_at(self._files, self._recording.places[operation.place][0])
                if found is None or not isinstance(found[1], ast.Call) or not found[1].args:
                    return False
                return may_overwrite(self._files, found[0], found[1].args[0])
        return False

    def _made(
        self, code: Code, node: ast.expr | ast.stmt, edits: tuple[Edit, ...], before: str, after: str, runs: list[Reuse]
    ) -> Suggestion:
        merged = {reuse.result.storage: reuse.freed.storage for reuse in runs}
        change = Change(merged=merged, keeps=frozenset(reuse.result.storage for reuse in runs if reuse.by_result))
        view = any(reuse.freed.view and reuse.freed.requires_grad for reuse in runs)
        costs = "it is a view: its backward copies the gradient once more" if view else ""
        because = self._because(runs)
        return Suggestion("in-place", site_of(code, node), before, after, because, {code.path: edits}, change, costs)

    def _because(self, reuses: Iterable[Reuse]) -> str:
        reuses = list(reuses)
        makers = sorted({_plain(self._maker(reuse).name) for reuse in reuses})
        made_by = f"{' and '.join(makers)} do" if len(makers) > 1 else f"{makers[0]} does"
        name = reuses[0].operation.name
        if any(reuse.by_result for reuse in reuses):
            return f"{made_by} not keep it; {name} does, but {name}_ needs only what it returns"
        if all(reuse.at_once for reuse in reuses):
            return f"{made_by} not keep it, and after this line it is gone anyway"
        return f"{made_by} not keep it, and nobody reads it after this line"


def _is_a_function(node: ast.Attribute) -> bool:
    """Is it a library function such as `F.relu`, not a module attribute?"""
    return ast.unparse(node.value).split(".")[-1] in ("F", "functional", "torch", "nn")


def _plain(name: str) -> str:
    return name.removeprefix("native_").removeprefix("cudnn_").removeprefix("_")


def _are_of_its_backward(operation: Operation, savers: Iterable[Saved], readers: Iterable[Operation]) -> bool:
    """Do only the operation's own node and its backward save and read the tensor from here on?"""
    return all(saved.node == operation.node for saved in savers) and all(
        reader.backward and reader.node == operation.node for reader in readers
    )
