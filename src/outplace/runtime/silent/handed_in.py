"""A call writes a tensor that it got, and its caller reads the old values later: `out = self.relu(x)`, `out + x`.

The caller may read them under the name that it handed in, under another name (`identity = x`), in a list or dict
(`skips.append(x)`, `x = level(x)`), or in an attribute. All callers on the stack are looked at. It is a bug only if the
result of the call is used as well: a call for nothing but its effect (`normalise(batch)`) says that it writes.

A caller that takes what it hands in from an attribute or a dict (`buf = state["momentum"]`) takes the changed values at
its next call. So may the function that writes, if the attribute's name says that each call starts from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.derivatives import normalises, step_of
from outplace.knowledge.names import spellings
from outplace.knowledge.silent_rules.functions import MISSING_MARK_DIRTY
from outplace.knowledge.silent_rules.two_names import TENSOR_UNDER_TWO_NAMES
from outplace.knowledge.traits import has, only_reshapes, reads_nothing
from outplace.repair.syntax.code import Code, root_of
from outplace.repair.syntax.flow import used_later
from outplace.runtime.locate import names, sites
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import PLAIN, copyable, extent, same_values, sample, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import reporting, scan
from outplace.runtime.silent.conditions import only_branches_read
from outplace.runtime.silent.kept_before import ONLY_FILLING, is_read, keepers, origins, value_at
from outplace.runtime.silent.marks import items_of
from outplace.runtime.silent.operands import is_number, only_of_itself, only_of_numbers
from outplace.source.heuristics import is_start_name

_MOST_FRAMES, _MOST_ITEMS, _MOST_WAITING = 6, 64, 32
_LARGEST = 1 << 24
_CALLING_HOOKS = {"_call_impl", "inner", "_wrapped_call_impl"}
_PATHS = ast.Name | ast.Attribute | ast.Subscript
_NN = ("torch/nn/", "torch\\nn\\")


_Suspect = tuple[ast.expr, ast.expr, bool]
"""What is written, a place that holds the same, and whether it was taken from there."""


class Reader(NamedTuple):
    """Who reads the old values: the caller, what it handed in, and the place that is read later.

    `again`: the place is where the caller took it from, and the next call will. So the second write of it tells.
    """

    code: CodeType
    handed: str
    place: str
    again: bool = False


def reader_of(write: Write, tensor: torch.Tensor, frame: FrameType) -> Reader | None:
    """The caller that reads the old values of what this write changes; None if there is none."""
    own, rescales = names.own_frames(None, frame)[:_MOST_FRAMES], False
    if function_of(write) is not None or _is_hook(frame):
        own = own[1:]
    elif len(write.frames) == 1:  # the user's own statement writes
        standing = sites.statement_of(own[0])
        hidden = may_hide(write) and _is_hidden_in(write, tensor, own[0])
        rescales = hidden and normalises(write.operation)
        found = _found(_beside(write, tensor, *standing, rescales), own[0], tensor) if standing else None
        if found is not None or not hidden:
            return found
        own = own[1:]
    for depth, caller in enumerate(own):
        standing = sites.statement_of(caller)
        if standing is None:
            return None
        explicit = not depth and len(write.frames) > 1
        found = _found(_suspects(*standing, explicit, rescales), caller, tensor)
        if found is not None:
            return found
    return None


def _found(suspects: Iterator[_Suspect], frame: FrameType, tensor: torch.Tensor) -> Reader | None:
    for path, place, again in suspects:
        # A frame keeps the values alive that it showed, so they are read only where the source is suspect.
        same = _shares(value_at(path, frame), tensor) and _holds(value_at(place, frame), tensor)
        if same and not only_branches_read(place, frame):
            return Reader(frame.f_code, ast.unparse(path), ast.unparse(place), again)
    return None


def _beside(write: Write, tensor: torch.Tensor, code: Code, statement: ast.stmt, rescales: bool) -> Iterator[_Suspect]:
    """What the user's own statement writes, and a place that holds the same and is read later.

    (Of tensors without a graph, the places are looked at by `tensor_under_two_names`.)
    A name for what an object holds is a handle, and may write it. It may not if nothing but rescaling ever happens to
    it, or if the object holds what each call starts from.
    """
    target = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    if not isinstance(target, ast.Name) or not (used_later(code, statement, target.id) or _uses_result(statement)):
        return
    if tensor.requires_grad and may_hide(write):
        yield from ((target, place, False) for place in _places(code, statement, target))
    before = log.current().writes_to(write.storage) if rescales else ()
    only_rescaled = rescales and all(normalises(other.operation) for other in before)
    for place in origins(code, statement, target.id):
        if only_rescaled or (isinstance(place, ast.Attribute) and is_start_name(place.attr)):
            yield target, place, True


def _uses_result(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.Return)


def function_of(write: Write) -> str | None:
    """The name of the `autograd.Function` whose forward writes, if it declares no input as dirty."""
    code = write.frames[-1][0]
    if code.co_name != "forward" or code.co_varnames[:1] != ("ctx",) or "mark_dirty" in code.co_names:
        return None
    return getattr(code, "co_qualname", "Function.forward").split(".")[-2]


def may_hide(write: Write) -> bool:
    """Is it a write that a caller may not expect: by a layer, or one that brings its argument into another range?"""
    if function_of(write) is not None:
        return not only_reshapes(write.operation)
    if len(write.frames) > 1:
        by_layer = any(part in write.frames[0][0].co_filename for part in _NN) and not has(write.operation, "replaces")
        return by_layer or normalises(write.operation) or step_of(write.operation) == "thin"
    cuts = write.operation == "masked_fill_" or (write.operation == "__setitem__" and write.region is None)
    return cuts or normalises(write.operation) or write.operation == "__iadd__"


def _is_hook(frame: FrameType) -> bool:
    """Was it called by a module, as a hook?"""
    caller, code = frame.f_back, frame.f_code
    by_module = caller is not None and any(part in caller.f_code.co_filename for part in _NN)
    return by_module and code.co_name not in ("forward", "__call__") and caller.f_code.co_name in _CALLING_HOOKS  # type: ignore[union-attr]


def _starts_again(write: Write) -> bool:
    """Does the function take what it writes from an attribute whose name says that it is a start?"""
    return any(is_start_name(name) for name in write.frames[-1][0].co_names)


def _is_hidden_in(write: Write, tensor: torch.Tensor, frame: FrameType) -> bool:
    """Does a function rescale its argument by what it holds itself, and go on to compute with it?"""
    standing = sites.statement_of(frame)
    target = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    root = root_of(target) if target is not None else None
    if standing is None or not isinstance(root, ast.Name):
        return False
    code, statement = standing
    if frame.f_code.co_name.endswith("_") and not frame.f_code.co_name.endswith("__"):
        return False
    if not _uses_result(statement) and not _is_computed_with(code, statement, root.id):
        return False
    if normalises(write.operation):
        mul = spellings(write.operation)[0] in ("mul_", "multiply_")
        return only_of_itself(write, tensor, frame) and not (mul and only_of_numbers(write, frame))
    value = None if write.operation == "__iadd__" else getattr(statement, "value", None)
    value = value.args[-1] if isinstance(value, ast.Call) and value.args else value
    return value is not None and is_number(value)


def _is_computed_with(code: Code, statement: ast.stmt, name: str) -> bool:
    """Does the function use what it has written in something other than a further write, and not only return it?"""
    last: ast.stmt = statement
    for later in ast.walk(code.scope(statement)):
        if isinstance(later, ast.AugAssign) and later.lineno > last.lineno:
            root = root_of(later.target)
            last = later if isinstance(root, ast.Name) and root.id == name else last
    return used_later(code, last, name)


def _suspects(code: Code, statement: ast.stmt, explicit: bool, rescales: bool) -> Iterator[_Suspect]:
    """What the statement hands to a call, with a place that holds the same and is read later. Not read: values.

    `explicit`: the statement may itself say that it writes, as in `F.relu(x, inplace=True)`.
    """
    for call in _calls(statement):
        if isinstance(call.func, ast.Attribute | ast.Name) and _called(call).endswith("_"):
            continue
        says_so = explicit and any(keyword.arg == "inplace" for keyword in call.keywords)
        for path in call.args:
            if not isinstance(path, _PATHS):
                continue
            yield from ((path, place, False) for place in _places(code, statement, path))
            if isinstance(path, ast.Name) and not says_so:
                if _is_read(code, statement, path.id) or _is_read_beside(statement, call, path.id):
                    yield path, path, False
                yield from ((path, place, True) for place in origins(code, statement, path.id) if rescales)


def _places(code: Code, statement: ast.stmt, path: ast.expr) -> Iterator[ast.expr]:
    """The places where the function keeps what it calls `path`, if they are read later."""
    ends = (loop.end_lineno or 0 for loop in code.loops(statement))
    for place, is_container in keepers(code, statement, ast.unparse(path), max(ends, default=0)):
        holder = place.value if isinstance(place, ast.Subscript) else place
        if isinstance(place, ast.Name) and not is_container:
            read = _is_read(code, statement, place.id)
        elif isinstance(holder, ast.Attribute):
            read = _is_read_anywhere(code, holder.attr)
        else:
            read = is_read(code, statement, holder)
        if read:
            yield holder


def _is_read_anywhere(code: Code, attribute: str) -> bool:
    """Does the file read an attribute of this name, for more than to store into it?"""
    for node in code.every(ast.Attribute):
        above = code.parents.get(node)
        stores = isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store)
        fills = isinstance(above, ast.Attribute) and above.attr in ONLY_FILLING
        if node.attr == attribute and isinstance(node.ctx, ast.Load) and not stores and not fills:
            return True
    return False


def _is_read(code: Code, statement: ast.stmt, name: str) -> bool:
    """Are the values read later, by another statement, not only the shape? The same call may write them again."""
    if not used_later(code, statement, name):
        return False
    loops, own = code.loops(statement), set(ast.walk(statement))
    first = loops[-1].lineno if loops else statement.lineno
    for node in ast.walk(code.scope(statement)):
        reads = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node not in own
        if reads and node.lineno >= first and not _asks_for_shape(code.parents.get(node)):  # type: ignore[attr-defined]
            return True
    return False


def _is_read_beside(statement: ast.stmt, call: ast.Call, name: str) -> bool:
    """`x + self.attn(x)`: does the statement compute with the name outside of the call?"""
    inside = set(ast.walk(call))
    sums = (node for node in ast.walk(statement) if isinstance(node, ast.BinOp))
    return any(
        isinstance(side, ast.Name) and side.id == name and side not in inside
        for node in sums
        for side in (node.left, node.right)
    )


def _asks_for_shape(above: ast.AST | None) -> bool:
    if isinstance(above, ast.Call):
        return isinstance(above.func, ast.Name) and above.func.id in ("len", "type", "isinstance")
    return isinstance(above, ast.Attribute) and reads_nothing(above.attr)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """The calls in a statement whose results are used."""
    if isinstance(statement, ast.Expr | ast.With | ast.If | ast.While):
        return []
    if isinstance(statement, ast.For):
        return [node for node in ast.walk(statement.iter) if isinstance(node, ast.Call)]
    return [node for node in ast.walk(statement) if isinstance(node, ast.Call)]


def _shares(value: Any, tensor: torch.Tensor) -> bool:
    if type(value) not in PLAIN or type(tensor) not in PLAIN:
        return False
    if value is tensor:
        return True
    if storage_of(value) != storage_of(tensor) or not (copyable(value) and copyable(tensor)):
        return False
    (first, last), (start, stop) = extent(value), extent(tensor)
    return first < stop and start < last


def _holds(holder: Any, tensor: torch.Tensor, depth: int = 2) -> bool:
    if type(holder) in PLAIN:
        return _shares(holder, tensor)
    items: Iterable[Any] = list(items_of(holder))[-_MOST_ITEMS:]
    return depth > 0 and any(_holds(item, tensor, depth - 1) for item in items)


class _Seen(NamedTuple):
    """A write that was seen, the memory that it writes, a sample of the old contents, and who reads them."""

    write: Write
    alias: torch.Tensor
    before: torch.Tensor
    reader: Reader


class HandedIn:
    """Looks at writes through calls, and tells of those that have changed values when a backward starts."""

    def __init__(self) -> None:
        self.waiting: dict[int, _Seen] = {}
        """By the storage: the last write to it, whose effect is not known yet."""
        self._changed: dict[tuple[CodeType, str], tuple[_Seen, dict[Instruction, Write]]] = {}
        """For each reader: the first write that changed its values, and one of each line."""
        self._told: set[tuple[CodeType, str]] = set()
        self._once: set[tuple[CodeType, str, int]] = set()
        """Readers that take it from the same place at each call, and the storages that were changed for them once."""

    def __len__(self) -> int:
        return len(self.waiting) + len(self._changed)

    def look(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> None:
        """Does a caller read the old values of what is about to be written?"""
        looks = may_hide(write) or _is_hook(frame) or _starts_again(write)
        if len(self.waiting) >= _MOST_WAITING or not looks or not copyable(tensor):
            return
        reader = reader_of(write, tensor, frame) if 1 < tensor.numel() <= _LARGEST else None
        if reader is not None and (reader.code, reader.place) not in self._told:
            with unobserved():
                self.waiting[write.storage] = _Seen(write, tensor.detach(), sample(tensor), reader)

    def settle(self, storage: int) -> None:
        """Another write follows, or the backward. Has the last one changed anything?"""
        seen = self.waiting.pop(storage)
        with unobserved():
            if same_values(seen.before, sample(seen.alias)):
                return
        key = seen.reader.code, seen.reader.place
        if seen.reader.again and (*key, storage) not in self._once:
            self._once.add((*key, storage))
            return
        self._changed.setdefault(key, (seen, {}))[1].setdefault(seen.write.frames[-1], seen.write)

    def tell(self) -> None:
        """Reports what has changed values that a caller reads."""
        for storage in list(self.waiting):
            self.settle(storage)
        for key, (seen, writes) in self._changed.items():
            self._told.add(key)
            found = names.described(seen.alias, seen.reader.handed)
            name, other = seen.reader.handed, seen.reader.place
            if name == other:  # the function that writes has a name of its own for it, if the user wrote it
                name = scan.target_of(seen.write) or name
            words = {"name": name, "other": other, "function": function_of(seen.write)}
            rule = TENSOR_UNDER_TWO_NAMES if words["function"] is None else MISSING_MARK_DIRTY
            reporting.tell(rule, found, scan.mutations_of(list(writes.values())), words)
        self._changed.clear()
