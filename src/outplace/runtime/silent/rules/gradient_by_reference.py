"""A gradient that has another name, and that zero_grad or the next backward changes before it is read there.

`total = [p.grad for p in parameters]` after the first part of a batch, `zero_grad(set_to_none=False)`, then
`acc += p.grad` for the second part: both names are one tensor, so the sum is twice the last gradient. When a backward
starts, a gradient that is there already is going to be changed in place. It is a bug if something else holds that very
tensor, and a later statement computes with it and with `.grad`, as if they were two.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.gradients import GRADIENT_BY_REFERENCE
from outplace.model import Mutation
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.flow import binds, read_later, reads
from outplace.runtime.locate import names, sites
from outplace.runtime.record import log
from outplace.runtime.record.snapshots import PLAIN, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.user_files import fields_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.kept_before import is_read
from outplace.runtime.silent.marks import items_of

_BACKWARDS = 12
"""So many backwards are looked at, then the 16th, 32nd and so on."""
_MOST_ITEMS = 256


class _Due:
    """Is the backward that starts to be looked at?"""

    def __init__(self) -> None:
        self._before = log.state.backwards

    def __len__(self) -> int:
        nth = log.state.backwards - self._before
        return int(nth <= _BACKWARDS or nth & (nth - 1) == 0)


def _holds(value: Any, gradient: torch.Tensor, depth: int = 2) -> bool:
    if value is gradient:
        return True
    return depth > 0 and any(_holds(item, gradient, depth - 1) for item in list(items_of(value))[:_MOST_ITEMS])


def _mentions_gradient(statement: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(statement))


def _is_taken_for_another(code: Code, statement: ast.stmt, name: str) -> bool:
    """Is the name read after this statement, in one that computes with `.grad` as well?"""
    if not read_later(code, statement, name):
        return False
    users = (node for node in ast.walk(code.scope(statement)) if isinstance(node, _SIMPLE) and _takes(node, name))
    return any(_mentions_gradient(user) for user in users if not binds(user, name))


def _takes(user: ast.AST, name: str) -> bool:
    """Does the statement itself take a value from the name? `grads[key] = p.grad` and `grads.append(p.grad)` do not."""
    if isinstance(user, ast.For):
        return reads(user.iter, name)
    if isinstance(user, ast.Assign) and all(isinstance(target, ast.Subscript) for target in user.targets):
        held = any(ast.unparse(target.value) != name for target in user.targets if isinstance(target, ast.Subscript))
        return reads(user.value, name) or (held and reads(user, name))
    call = user.value if isinstance(user, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) in (f"{name}.append", f"{name}.extend", f"{name}.update"):
        return any(reads(argument, name) for argument in call.args)
    return reads(user, name)


def _is_filled_by_turns(code: Code, statement: ast.stmt, name: str) -> bool:
    """Does each turn of the loop around this backward put gradients beside the earlier ones: `grads[task] = ...`?"""
    loops = code.loops(statement)
    if (
        not loops
        or any(binds(node, name) for node in ast.walk(loops[0]))
        or not is_read(code, loops[0], ast.Name(name))
    ):
        return False
    for node in ast.walk(loops[0]):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
            turn = isinstance(target.slice, ast.Name) and binds(loops[0], target.slice.id)
            if turn and _mentions_gradient(node):  # another key in each turn
                return True
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.append" and _mentions_gradient(call):
            return True
    return False


_SIMPLE = ast.Assign | ast.AugAssign | ast.Expr | ast.For | ast.Return


def _names_of(gradient: torch.Tensor, frames: list[FrameType]) -> Iterator[str]:
    """The names of the running functions that hold the gradient and are read later."""
    for frame in frames:
        held = [name for name, value in frame.f_locals.items() if _holds(value, gradient)]
        standing = sites.statement_of(frame) if held else None
        for name in held if standing is not None else ():
            if standing is not None and (
                _is_taken_for_another(*standing, name) or _is_filled_by_turns(*standing, name)
            ):
                yield name


def _fields_of(parameter: torch.Tensor, gradient: torch.Tensor, frames: list[FrameType]) -> Iterator[str]:
    """`p.total`, where a statement adds `p.grad` to it."""
    for field, value in fields_of(parameter).items():
        if value is gradient and frames:
            code = sites.code_of(frames[0].f_code.co_filename)
            for node in code.every(ast.AugAssign) if code is not None else ():
                target = node.target
                if isinstance(target, ast.Attribute) and target.attr == field and _mentions_gradient(node.value):
                    yield ast.unparse(target)


def _attributes_of(gradient: torch.Tensor, frames: list[FrameType]) -> Iterator[str]:
    """`self.previous`, which a method reads before it gives it the next gradients."""
    owners = {id(value): value for frame in frames for value in frame.f_locals.values()}
    for owner in owners.values():
        held = [name for name, value in fields_of(owner).items() if _holds(value, gradient)]
        for name in held if not isinstance(owner, torch.Tensor | torch.nn.Module | type(sys)) else ():
            kind = sys.modules.get(type(owner).__module__)
            code = sites.code_of(getattr(kind, "__file__", None) or frames[0].f_code.co_filename)
            functions = code.functions if code is not None else ()
            if any(_reads_last(function, name) or _computes_with(function, name) for function in functions):
                yield f"self.{name}"


def _reads_last(function: ast.AST, name: str) -> bool:
    """Does the function read the attribute, then take gradients, and give it the next value?"""
    named = [node for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.attr == name]
    stored = [node.lineno for node in named if isinstance(node.ctx, ast.Store)]
    # A test for None reads nothing: `if self.previous is not None`.
    tested = {id(test.left) for test in ast.walk(function) if isinstance(test, ast.Compare)}
    read = [node.lineno for node in named if isinstance(node.ctx, ast.Load) and id(node) not in tested]
    return bool(stored and read) and min(read) < max(stored) and _mentions_gradient(function)


def _computes_with(function: ast.AST, name: str) -> bool:
    """Does one expression take the attribute, or an item of it, and a gradient: `p.grad - a.grad + mean`?"""
    if any(isinstance(node, ast.Attribute) and node.attr == name and _is_stored(node) for node in ast.walk(function)):
        return False
    items = set[str]()
    for loop in ast.walk(function):
        if isinstance(loop, ast.For | ast.comprehension) and _mentions(loop.iter, name):
            items |= {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for sum_ in ast.walk(function):
        if isinstance(sum_, ast.BinOp) and _mentions_gradient(sum_):
            own = {node.id for node in ast.walk(sum_) if isinstance(node, ast.Name)}
            if _mentions(sum_, name) or own & (items - _owners_of_gradients(sum_)):
                return True
    return False


def _mentions(node: ast.AST, attribute: str) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == attribute for part in ast.walk(node))


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _owners_of_gradients(node: ast.AST) -> set[str]:
    """`p` of `p.grad`."""
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Attribute) and part.attr == "grad")
    return {part.id for part in parts if isinstance(part, ast.Name)}


@functools.cache
def _alone() -> int:
    """What `getrefcount` counts for a gradient that nothing else holds. Some versions of torch count the leaf."""
    with unobserved():
        leaf = torch.zeros(1, device="cpu", requires_grad=True)
        leaf.grad = torch.zeros(1, device="cpu")
        return sys.getrefcount(leaf.grad)


def _held_leaves(nodes: Iterable[Any]) -> list[torch.Tensor]:
    """The leaves of the graph that have a gradient already, which something else holds."""
    leaves = {}
    for node in nodes:
        for below, _ in node.next_functions:
            leaf: Any = getattr(below, "variable", None)
            if type(leaf) in PLAIN and type(leaf.grad) in PLAIN and sys.getrefcount(leaf.grad) > _alone():
                leaves[id(leaf)] = leaf
    return list(leaves.values())


class Detector(detector.Detector):
    """Looks who holds the gradients that a backward is going to change."""

    def __init__(self) -> None:
        self.waiting = _Due()
        self._told: set[str] = set()

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Is one of these gradients read later, as if it were not changed?"""
        leaves = _held_leaves(nodes)
        frames = names.own_frames(None, sys._getframe(1)) if leaves else []
        for leaf in leaves if frames else ():
            gradient = leaf.grad
            if gradient is None:
                continue
            held = [*_names_of(gradient, frames), *_fields_of(leaf, gradient, frames)]
            held = held or list(_attributes_of(gradient, frames))
            if held and held[0] not in self._told:
                self._told.add(held[0])
                self._tell(gradient, held[0], frames[0])
                return

    def _tell(self, gradient: torch.Tensor, name: str, frame: FrameType) -> None:
        storage, since = storage_of(gradient), log.current().backwards[-2:-1]
        written = [write for write in log.current().writes if write.storage == storage and write.frames]
        zeroed = [
            write for write in written if "zero_" in write.operation and since and write.moment >= since[0].moment
        ]
        here = Mutation("backward", sites.at_instruction((frame.f_code, frame.f_lasti)).site)
        found = (*scan.mutations_of(zeroed), here)
        reporting.tell(GRADIENT_BY_REFERENCE, names.described(gradient, name), found, {"name": name})
