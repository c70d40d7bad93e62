"""Where a function has kept a tensor before it writes it: in a list, an item, an attribute, or under another name.

`replay.append(h)`, `h[done] = 0`: what the list holds is changed. `batch["labels"] = batch["ids"]`, then a write to
`batch["ids"]`. `before = self.mean`, `self.mean += v`. The function must have kept it before the write, and use both
afterwards. A name for what an object holds (`m = self.mean`, `m += v`) is a handle, and fine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.derivatives import normalises, step_of
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.flow import bindings, binds, read_later, reads, used_later
from outplace.runtime.errors import freed_names
from outplace.runtime.record.log import Write
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.silent.conditions import only_branches_read
from outplace.runtime.silent.marks import items_of

_STORING = frozenset(("append", "appendleft"))
ONLY_FILLING = _STORING | {"extend", "clear", "popleft"}
_PATHS = ast.Name | ast.Attribute | ast.Subscript
_NO_ITEM = object()


def kept_before(write: Write, target: ast.expr, frame: FrameType, code: Code, statement: ast.stmt) -> str | None:
    """The place, in the words of the source, that holds what the statement is about to write, and is read later."""
    if frame.f_code.co_name == "__init__" or not (
        _cuts(write) or normalises(write.operation) or step_of(write.operation)
    ):
        return None  # what is filled after it was kept, was kept to be filled
    for path in _parts(target):
        for other, is_container in keepers(code, statement, ast.unparse(path)):
            if not _both_used(write, code, statement, path, other, is_container):
                continue
            # A frame keeps the values alive that it showed, so they are read only where the source is suspect.
            tensor = value_at(path, frame)
            same = type(tensor) in PLAIN and not tensor.requires_grad and _holds(value_at(other, frame), tensor)
            if same and not only_branches_read(other, frame):
                return ast.unparse(other)
    return None


def copied_container(
    tensor: torch.Tensor, target: ast.expr | None, frame: FrameType, code: Code, statement: ast.stmt
) -> tuple[str, str] | None:
    """`proposal = dict(state)`, `proposal["x"] += v`: both containers, if both hold the tensor and are used later."""
    entry = isinstance(statement, ast.AugAssign) and _holder_of(target) == getattr(target, "value", None)
    holder = _holder_of(target)
    for written, other in _copies(code, statement, holder.id) if holder is not None else ():
        if not read_later(code, statement, written) or not used_later(code, statement, other):
            continue
        holders = [frame.f_locals.get(name) for name in (written, other)]
        if not entry and type(holders[0]) is not dict:
            continue  # a list of tensors may be there to write into each
        if holders[0] is not holders[1] and all(_has(one, tensor) for one in holders):
            return written, other
    return None


def _holder_of(target: ast.expr | None) -> ast.Name | None:
    """`batch` of `batch["x"]` and of `batch["x"][mask]`."""
    while isinstance(target, ast.Subscript):
        target = target.value
        if isinstance(target, ast.Name):
            return target
    return None


def _copies(code: Code, statement: ast.stmt, written: str) -> Iterator[tuple[str, str]]:
    """This container, and one that the function has copied it from or to, above the statement."""
    nodes = (node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Assign))
    for node in (node for node in nodes if node.lineno < statement.lineno and isinstance(node.targets[0], ast.Name)):
        pair = (node.targets[0].id, _copied(node.value))  # type: ignore[attr-defined]
        other = pair[0] if pair[1] == written else pair[1]
        if other is not None and written in pair:
            yield written, other


def _has(holder: Any, tensor: torch.Tensor) -> bool:
    """Does it hold this tensor, or the one that this is a view of?"""
    return any(item is tensor or (type(item) in PLAIN and tensor._base is item) for item in items_of(holder))


def summed_into_entry(tensor: torch.Tensor, frame: FrameType, code: Code, statement: ast.stmt) -> str | None:
    """`total = losses["fit"]`, `total += losses["sparse"]`: the entry that has become the sum, and is read later."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return None
    if not isinstance(statement.target, ast.Name) or not used_later(code, statement, statement.target.id):
        return None
    for binding in bindings(code, statement, statement.target.id):
        entry = binding.value if isinstance(binding, ast.Assign) else None
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.slice, ast.Constant):
            continue
        holder = ast.unparse(entry.value)
        others = partial(_is_another, entry.slice.value, holder)
        if (
            _takes_from(code, statement, holder)
            and read_later(code, statement, holder, others)
            and value_at(entry, frame) is tensor
        ):
            return ast.unparse(entry)
    return None


def _takes_from(code: Code, statement: ast.AugAssign, holder: str) -> bool:
    """Does the statement add something else that the container holds?"""
    if reads(statement.value, holder):
        return True
    names = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    return any(
        reads(loop.iter, holder)
        for loop in code.loops(statement)
        if isinstance(loop, ast.For) and any(binds(loop, name) for name in names)
    )


def _is_another(key: object, holder: str, part: ast.Subscript) -> bool:
    """Is it a part of the container without this entry: `losses["sparse"]`, `parts[1:]`?"""
    if ast.unparse(part.value) != holder:
        return False
    index = part.slice.lower if isinstance(part.slice, ast.Slice) else part.slice
    return isinstance(index, ast.Constant) and index.value != key


def _copied(node: ast.expr) -> str | None:
    """The name of the container that this is a copy of: `list(x)`, `dict(x)`, `copy.copy(x)`, `x.copy()`, `x[:]`."""
    source: ast.expr | None = None
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("list", "dict", "copy") and len(node.args) == 1:
            source = node.args[0]
        elif called == "copy" and isinstance(node.func, ast.Attribute) and not node.args:
            source = node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        source = node.value
    return source.id if isinstance(source, ast.Name) else None


def _cuts(write: Write) -> bool:
    """Does it put something where a mask or a list of indices says?"""
    return (write.operation == "__setitem__" and write.region is None) or write.operation == "masked_fill_"


def value_at(path: ast.expr, frame: FrameType) -> Any:
    """The value of a name, an attribute, or an item with a plain key; None if unknown."""
    if not isinstance(path, ast.Subscript):
        return freed_names.value_of(path, frame)
    holder = value_at(path.value, frame)
    key = path.slice.value if isinstance(path.slice, ast.Constant) else _NO_ITEM
    if isinstance(path.slice, ast.Name):
        key = frame.f_locals.get(path.slice.id, _NO_ITEM)
    if type(holder) is dict and type(key) in (str, int):
        return holder.get(key)
    return holder[key] if type(holder) in (list, tuple) and type(key) is int and key < len(holder) else None


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    """`batch["ids"][mask]`, `batch["ids"]` and so on: one of them is the tensor."""
    while isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
        yield target
        target = target.value
    if isinstance(target, _PATHS):
        yield target


def keepers(code: Code, statement: ast.stmt, written: str, last: int = 0) -> Iterator[tuple[ast.expr, bool]]:
    """The places where the function puts this path before the statement, or above the `last` line of a loop.

    Is the place a container of many?
    """
    last = max(statement.lineno, last)
    nodes = (node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Assign | ast.Expr))
    for node in (node for node in nodes if node.lineno <= last and node is not statement):
        if isinstance(node, ast.Assign) and isinstance(node.value, _PATHS):
            if ast.unparse(node.value) == written:
                yield from ((target, False) for target in node.targets if isinstance(target, _PATHS))
        elif isinstance(call := node.value, ast.Call) and _stores(call, written):
            yield call.func.value, True  # type: ignore[attr-defined]


def origins(code: Code, statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    """The attributes and items that a name was bound to before the statement: `buf = state["momentum"]`."""
    for binding in bindings(code, statement, name):
        if isinstance(binding, ast.Assign) and isinstance(binding.value, ast.Attribute | ast.Subscript):
            yield binding.value


def _stores(call: ast.Call, written: str) -> bool:
    """`kept.append(x)`, `kept.append({"x": x})`."""
    stores = isinstance(call.func, ast.Attribute) and call.func.attr in _STORING
    return stores and any(ast.unparse(item) == written for item in _items(call.args))


def _items(values: list[ast.expr]) -> Iterator[ast.expr]:
    """The values, and the items of the tuples, lists and dicts among them."""
    for value in values:
        if isinstance(value, ast.Tuple | ast.List):
            yield from _items(value.elts)
        elif isinstance(value, ast.Dict):
            yield from _items(value.values)
        else:
            yield value


def _holds(holder: Any, tensor: torch.Tensor, depth: int = 2) -> bool:
    if type(holder) in PLAIN:
        return not holder.requires_grad and same_piece(holder, tensor)
    return depth > 0 and any(_holds(item, tensor, depth - 1) for item in list(items_of(holder))[-64:])


def _both_used(
    write: Write, code: Code, statement: ast.stmt, path: ast.expr, other: ast.expr, is_container: bool
) -> bool:
    if isinstance(other, ast.Name) and not is_container:
        if isinstance(path, ast.Name):
            return False  # two names of a function are looked at where they are made
        # `before = self.mean`, `self.mean += v`. A write to a part may be meant for both.
        return bool(step_of(write.operation)) and used_later(code, statement, other.id)
    if isinstance(path, ast.Name) and not used_later(code, statement, path.id):
        return False
    return is_read(code, statement, other)


def is_read(code: Code, statement: ast.stmt, holder: ast.expr) -> bool:
    """Is what it holds read later? An attribute is there to be read elsewhere."""
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    if not isinstance(holder, ast.Name):
        return isinstance(holder, ast.Attribute)
    loops = code.loops(statement)
    first = loops[-1].lineno if loops else statement.lineno + 1
    for node in ast.walk(code.scope(statement)):
        if (
            isinstance(node, ast.Name)
            and node.id == holder.id
            and isinstance(node.ctx, ast.Load)
            and node.lineno >= first
        ):
            above = code.parents.get(node)
            stored = isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store)
            filled = isinstance(above, ast.Attribute) and above.attr in ONLY_FILLING
            if not stored and not filled and node.lineno != statement.lineno:
                return True
    return False
