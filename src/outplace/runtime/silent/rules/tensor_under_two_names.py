"""A tensor is updated in place under one name, and its old values are read under another one.

`advantages = returns`, `advantages -= values`, and the loss takes both. Or a function writes what it was given and
returns it: `visible = corrupt(patches)`, and the caller reads `visible` and `patches`. Reading a variable leaves no
trace, but the running functions know what they read later. It is a bug only where both names are used afterwards: a
name that is only there to write is a handle. A view in another shape is a handle as well. Two names that are each
updated from their old values (`m = v = torch.zeros(3)`) were meant to be two tensors.
"""

from __future__ import annotations

import ast
import atexit
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FrameType
from typing import Any

import torch

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.silent_rules.lost import DETACHED_ALIAS_WRITTEN
from outplace.knowledge.silent_rules.two_names import COPIED_CONTAINER_WRITTEN, TENSOR_UNDER_TWO_NAMES
from outplace.model import Mutation
from outplace.repair.syntax.code import Code, root_of
from outplace.repair.syntax.flow import flat, targets_of, used_later
from outplace.runtime.locate import names, sites
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import Write
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.conditions import is_used_later
from outplace.runtime.silent.handed_in import HandedIn, function_of
from outplace.runtime.silent.kept_before import copied_container, kept_before, summed_into_entry
from outplace.runtime.silent.operands import frame_of, operands_of


def _written_name(write: Write) -> str | None:
    """The name of the tensor that the statement writes, whole or in part."""
    target = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    while isinstance(target, ast.Attribute) and target.attr == "data":
        target = target.value
    root = root_of(target) if target is not None else None
    return root.id if isinstance(root, ast.Name) else None


def _value(frame: FrameType, name: str) -> Any:
    return frame.f_locals.get(name)


def _are_same(value: Any, tensor: Any) -> bool:
    """Are both plain tensors, and show the same memory? (The name of a written part may be that of a list.)"""
    return type(value) in PLAIN and type(tensor) in PLAIN and same_piece(value, tensor)


def _relatives(code: Code, statement: ast.stmt, name: str) -> list[str]:
    """The names that the function makes of this one, or this one of: `advantages = returns`."""
    found = []
    for node in ast.walk(code.scope(statement)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            assigned, root = node.targets[0].id, root_of(node.value)
            if isinstance(root, ast.Name) and assigned != root.id and name in (assigned, root.id):
                found.append(root.id if assigned == name else assigned)
    return found


def _updated_beside(code: Code, statement: ast.stmt, name: str) -> dict[str, list[ast.stmt]]:
    """Other names that the function updates from their old values: `m = v = torch.zeros(3)`, `m *= b`, `v.mul_(c)`."""
    found: dict[str, list[ast.stmt]] = {}
    for item in ast.walk(code.scope(statement)):
        if isinstance(item, ast.AugAssign | ast.Expr) and item is not statement:
            updated = _updated_name(item)
            if updated is not None and updated != name:
                found.setdefault(updated, []).append(item)
    return found


def _updated_name(statement: ast.AugAssign | ast.Expr) -> str | None:
    """`m` of `m *= b` and of `m.mul_(b).add_(g)`."""
    target: ast.expr = statement.target if isinstance(statement, ast.AugAssign) else statement.value
    steps = isinstance(statement, ast.AugAssign)
    while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr.endswith("_"):
        steps = bool(step_of(target.func.attr))
        target = target.func.value
    return target.id if steps and isinstance(target, ast.Name) else None


def _other_name(frame: FrameType, code: Code, statement: ast.stmt, name: str, relatives: list[str]) -> str | None:
    """Another name of the same function for the same tensor, where both are used later."""
    tensor = _value(frame, name)
    if type(tensor) not in PLAIN or not is_used_later(frame, code, statement, name):
        return None
    for other in relatives:
        value = _value(frame, other)
        if not _are_same(value, tensor) or value.requires_grad:  # `detached_alias_written` looks at results of graphs
            continue
        if is_used_later(frame, code, statement, other):
            return other
    return None


def _operand_over(write: Write, tensor: torch.Tensor, frame: FrameType) -> str | None:
    """Another name for the written memory, in what the statement computes with: `shadow[k].mul_(d).add_(v)`."""
    for operand in operands_of(write) if write.operation != "copy_" else ():
        for name in _plain_names(operand):
            value = _value(frame, name)
            if value is not tensor and _are_same(value, tensor):
                return name
    return None


def _plain_names(node: ast.expr) -> list[str]:
    """The names of an expression that has no calls: what a call makes is new."""
    if isinstance(node, ast.BinOp):
        return _plain_names(node.left) + _plain_names(node.right)
    return [node.id] if isinstance(node, ast.Name) else []


def _name_of_caller(frames: list[FrameType], function: ast.FunctionDef, name: str) -> str | None:
    """The caller's name for what this function writes and returns, where the caller uses the result and it."""
    standing = sites.statement_of(frames[1]) if len(frames) > 1 else None
    if standing is None:
        return None
    outer, call = standing
    says_so = function.name.endswith("_") and not function.name.endswith("__")  # `__call__` is no `mask_`
    if says_so or not isinstance(call, ast.Assign) or not isinstance(call.value, ast.Call):
        return None
    tensor, targets = _value(frames[0], name), flat(targets_of(call))
    for argument in call.value.args:
        value = _value(frames[1], argument.id) if isinstance(argument, ast.Name) else None
        if isinstance(argument, ast.Name) and _are_same(value, tensor):
            bound = [target.id for target in targets if isinstance(target, ast.Name)]
            if argument.id not in bound and _is_read_below(outer, call, bound) and used_later(outer, call, argument.id):
                return argument.id
    return None


def _name_of_argument(
    frames: list[FrameType], code: Code, statement: ast.stmt, name: str, relatives: list[str]
) -> str | None:
    """The caller's name for an argument that this function gave a name of its own and works with: `interp = real`."""
    inner, tensor = frames[0], _value(frames[0], name)
    arguments = inner.f_code.co_varnames[: inner.f_code.co_argcount]
    values = [_value(inner, item) for item in relatives if item in arguments]
    shared = [value for value in values if _are_same(value, tensor) and not value.requires_grad]
    standing = sites.statement_of(frames[1]) if shared and len(frames) > 1 else None
    if standing is None or not used_later(code, statement, name):
        return None
    outer, call = standing
    for argument in (item for item in ast.walk(call) if isinstance(item, ast.Call)):
        for node in argument.args:
            value = _value(frames[1], node.id) if isinstance(node, ast.Name) else None
            if (
                isinstance(node, ast.Name)
                and any(value is item for item in shared)
                and used_later(outer, call, node.id)
            ):
                return node.id
    return None


def _is_read_below(code: Code, statement: ast.stmt, bound: list[str]) -> bool:
    """Is one of the names that the statement binds read further below?"""
    loads = (node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Name))
    return any(node.id in bound and isinstance(node.ctx, ast.Load) and node.lineno > statement.lineno for node in loads)


def _returns(function: ast.FunctionDef, name: str) -> bool:
    """Does the function return this very tensor, alone or beside others?"""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if any(isinstance(value, ast.Name) and value.id == name for value in values):
                return True
    return False


def _further_writes(code: Code, statement: ast.stmt, name: str, other: str, function: str) -> list[Mutation]:
    """The next statements of the block that write the same tensor, before another one uses it."""
    block, found = code.block(statement), []
    for later in block[block.index(statement) + 1 :]:
        named = {node.id for node in ast.walk(later) if isinstance(node, ast.Name)}
        if _writes(later, name) and other not in named:
            found.append(Mutation("in place", sites.site_of(code.path, later, function)))
        elif name in named or other in named:
            break
    return found


def _writes(statement: ast.stmt, name: str) -> bool:
    """`x /= x.std()`, `x[i] = 0`, `x.clamp_(0, 1)`."""
    target: ast.expr | None = statement.target if isinstance(statement, ast.AugAssign) else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        target = statement.targets[0]
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        target = call.func.value
    root = root_of(target) if target is not None else None
    return isinstance(root, ast.Name) and root.id == name


def _is_detached(code: Code, statement: ast.stmt, name: str, other: str) -> bool:
    """Was one made of the other by `detach()` or `.data`?"""
    for node in ast.walk(code.scope(statement)):
        bound = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(bound, ast.Name) and bound.id in (name, other) and isinstance(node, ast.Assign):
            value = ast.unparse(node.value)
            source = other if bound.id == name else name
            if value == f"{source}.data" or value.startswith((f"{source}.detach()", f"{source}.data.")):
                return True
    return False


class Detector(detector.Detector):
    """Looks for other names of a tensor that a statement of the user writes."""

    def __init__(self) -> None:
        self._told: set[tuple[CodeType, str]] = set()
        self._looks = hidden_writes.Seldom()
        self._handed = HandedIn()
        self.waiting = self._handed

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        frame = frame_of(write) if self._is_due(write) else None
        if frame is not None:
            if len(write.frames) == 1:
                scan.guarded(partial(self._look, write, tensor, frame))
                reporting.raise_if_strict()
            scan.guarded(partial(self._handed.look, write, tensor, frame))

    def on_graph_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A result of the graph is about to be written: `total += losses["sparse"]`."""
        frame = frame_of(write) if self._is_due(write) else None
        if frame is not None:
            if write.operation == "__iadd__" and len(write.frames) == 1:
                scan.guarded(partial(self._look_at_graph, write, tensor, frame))
                reporting.raise_if_strict()
            scan.guarded(partial(self._handed.look, write, tensor, frame))

    def on_no_grad_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A result of the graph is written without a record, as in the forward of a Function."""
        if write.frames and function_of(write) is not None and self._is_due(write):
            frame = frame_of(write)
            if frame is not None:
                scan.guarded(partial(self._handed.look, write, tensor, frame))

    def _is_due(self, write: Write) -> bool:
        if write.storage in self._handed.waiting:
            scan.guarded(partial(self._handed.settle, write.storage))
        return bool(write.frames) and self._looks.is_due(write.frames[-1])

    def patches(self) -> Iterator[Patch]:
        """At the end it is told what has changed since the last backward, as in a last evaluation."""
        why = "A program that has trained may evaluate after its last backward."
        yield registered("atexit", self._tell_at_exit, why)

    def _tell_at_exit(self) -> Undo:
        atexit.register(self._at_exit)
        return lambda: atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        if log.state.backwards:
            scan.guarded(self._handed.tell)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward shows that the program trains with what its functions have changed."""
        self._handed.tell()

    def _look_at_graph(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> None:
        if not self._look_at_sum(write, tensor, frame):
            self._look_at_result(write, tensor, frame)

    def _look_at_result(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> bool:
        """Does the function return what it writes, and does its caller read both the result and the argument?"""
        standing, name = sites.statement_of(frame), _written_name(write)
        if standing is None or name is None or (frame.f_code, name) in self._told:
            return False
        function = standing[0].function(standing[1])
        if not isinstance(function, ast.FunctionDef) or not _returns(function, name):
            return False
        other = _name_of_caller(names.own_frames(None, frame), function, name)
        if other is not None:
            self._report(write, tensor, name, other, *standing, frame)
        return other is not None

    def _look_at_sum(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> bool:
        standing, name = sites.statement_of(frame), _written_name(write)
        if standing is None or name is None or (frame.f_code, name) in self._told:
            return False
        entry = summed_into_entry(tensor, frame, *standing)
        if entry is not None:
            self._report(write, tensor, name, entry, *standing, frame)
        return entry is not None

    def _look(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> None:
        standing = sites.statement_of(frame)
        name = _written_name(write)
        if standing is None or (frame.f_code, name) in self._told:
            return
        code, statement = standing
        other = _operand_over(write, tensor, frame)
        if other is not None:
            self._report(write, tensor, name or scan.target_of(write) or "", other, code, statement, frame)
            return
        if self._look_at_sum(write, tensor, frame):
            return
        target = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
        containers = copied_container(tensor, target, frame, code, statement)
        if containers is not None:
            words = dict(zip(("name", "other"), containers, strict=True))
            found = names.described(tensor, scan.target_of(write))
            reporting.tell(COPIED_CONTAINER_WRITTEN, found, scan.mutations_of([write]), words)
            return
        other = None if target is None else kept_before(write, target, frame, code, statement)
        if other is not None:
            self._report(write, tensor, scan.target_of(write) or "", other, code, statement, frame)
            return
        if name is not None:
            self._look_at_names(write, tensor, name, code, statement, frame)

    def _look_at_names(
        self, write: Write, tensor: torch.Tensor, name: str, code: Code, statement: ast.stmt, frame: FrameType
    ) -> None:
        """Has the tensor another name, in this function or in its caller?"""
        beside = _updated_beside(code, statement, name) if step_of(write.operation) else {}
        relatives, function = _relatives(code, statement, name), code.function(statement)
        returned = isinstance(function, ast.FunctionDef) and _returns(function, name)
        if not (beside or relatives or returned):  # before reading names: a frame keeps the values alive that it showed
            return
        other = _other_name(frame, code, statement, name, [*beside, *relatives])
        if other is None and relatives:
            other = _name_of_argument(names.own_frames(None, frame), code, statement, name, relatives)
        if other is None and returned:
            other = _name_of_caller(names.own_frames(None, frame), function, name)  # type: ignore[arg-type]
        if other is not None:
            self._report(write, tensor, name, other, code, statement, frame, beside.get(other, ()))

    def _report(
        self,
        write: Write,
        tensor: torch.Tensor,
        name: str,
        other: str,
        code: Code,
        statement: ast.stmt,
        frame: FrameType,
        beside: Iterable[ast.stmt] = (),
    ) -> None:
        """`beside`: the statements that write the other name."""
        self._told |= {(frame.f_code, name), (frame.f_code, other)}
        function = frame.f_code.co_name
        others = (Mutation("in place", sites.site_of(code.path, item, function)) for item in beside)
        written = (*scan.mutations_of([write]), *_further_writes(code, statement, name, other, function), *others)
        words = {"name": name, "other": other}
        rule = DETACHED_ALIAS_WRITTEN if _is_detached(code, statement, name, other) else TENSOR_UNDER_TWO_NAMES
        reporting.tell(rule, names.described(tensor, name), written, words)
