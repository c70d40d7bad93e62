"""What the values of a writing statement are made of: of the written tensor alone, or of something else."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch

from outplace.knowledge.traits import draws, method_has, reads_nothing
from outplace.repair.syntax.code import Code
from outplace.runtime.errors import freed_names
from outplace.runtime.locate import sites
from outplace.runtime.record.log import Write
from outplace.runtime.record.storages import storage_of

_NUMBERS = (int, float, complex, bool, str, tuple, torch.dtype, torch.device)
_HOPS = 4


def frame_of(write: Write) -> FrameType | None:
    """The running frame of the statement that is about to write."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not write.frames[-1][0]:
        frame = frame.f_back
    return frame


def operands_of(write: Write) -> list[ast.expr]:
    """The expressions that the writing statement computes the new values with: `m` of `x.sub_(m)` and of `x -= m`."""
    node = sites.at_instruction(write.frames[-1], write.operation).node
    if isinstance(node, ast.AugAssign):
        return [node.value]
    return [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []


def only_of_itself(write: Write, tensor: torch.Tensor, frame: FrameType) -> bool:
    """Does the statement compute with nothing but the written tensor and numbers: `adj /= adj.sum(1)`?"""
    return _computes_only_with(storage_of(tensor), write, frame)


def only_of_numbers(write: Write, frame: FrameType) -> bool:
    """Does the statement compute with nothing but numbers and shapes, not by chance: `bias -= slope * far`?"""
    located = sites.statement_of(frame)
    scope = ast.walk(located[0].scope(located[1])) if located is not None else ()
    called = (item.func.attr for item in scope if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute))
    return not any(map(draws, called)) and _computes_only_with(None, write, frame)


def of_network(write: Write, frame: FrameType) -> bool:
    """Is something that a network has computed in it: `weights *= torch.exp(net(x).argmax(1) != y)`?"""
    located = sites.statement_of(frame)
    if located is None:
        return False
    assigned = _assigned(*located)
    seen, waiting = set[str](), operands_of(write)
    for _ in range(_HOPS):
        nodes = [node for expression in waiting for node in ast.walk(expression)]
        called = (node.func for node in nodes if isinstance(node, ast.Call))
        if any(_is_network(freed_names.value_of(function, frame)) for function in called):
            return True
        names = {node.id for node in nodes if isinstance(node, ast.Name)} - seen
        seen |= names
        waiting = [value for name in names for value in assigned.get(name, [])]
    return False


def _is_network(called: Any) -> bool:
    return isinstance(called, torch.nn.Module) and any(True for _ in torch.nn.Module.parameters(called))


def is_augmented(write: Write) -> bool:
    """Is it `x[i] += v`, whose first half has written the part already?"""
    return isinstance(sites.at_instruction(write.frames[-1], write.operation).statement, ast.AugAssign)


def is_number(node: ast.expr) -> bool:
    """Is it a number as the source writes it: `0`, `-1e9`, `-torch.inf`, `float("-inf")`?"""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "float" and all(map(is_number, node.args))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Attribute) and node.attr in ("inf", "nan"))


def _computes_only_with(storage: int | None, write: Write, frame: FrameType) -> bool:
    located = sites.statement_of(frame)
    operands = operands_of(write)
    if located is None or not operands:
        return False
    assigned = _assigned(*located)
    return all(_is_own(operand, frame, storage, assigned, _HOPS) for operand in operands)


def _assigned(code: Code, statement: ast.stmt) -> dict[str, list[ast.expr]]:
    """What is assigned to each name in the function of a statement."""
    result: dict[str, list[ast.expr]] = {}
    for item in ast.walk(code.scope(statement)):
        if isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    result.setdefault(target.id, []).append(item.value)
    return result


def _is_own(node: ast.expr, frame: FrameType, storage: int | None, made: dict[str, list[ast.expr]], hops: int) -> bool:
    for path in _paths(node):
        if _is_known(path, frame, storage):
            continue
        sources = made.get(path.id, []) if isinstance(path, ast.Name) else []
        if not sources or not hops:
            return False
        if not all(_is_own(source, frame, storage, made, hops - 1) for source in sources):
            return False
    return True


def _is_known(path: ast.expr, frame: FrameType, storage: int | None) -> bool:
    """Is it a number, a function or a module, or the written memory itself, or an attribute of these?"""
    value: Any = freed_names.value_of(path, frame)
    if value is None:
        if isinstance(path, ast.Attribute):  # `adj.device`, `adj.T`; `adj.grad` is another tensor
            about = method_has(path.attr, "view_attribute") or (reads_nothing(path.attr) and path.attr != "grad")
            return about and _is_known(path.value, frame, storage)
        return isinstance(path, ast.Name) and hasattr(builtins, path.id)
    if isinstance(value, torch.Tensor):
        return storage is not None and storage_of(value) == storage
    return isinstance(value, (*_NUMBERS, ModuleType, FunctionType))


def _paths(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes that an expression reads, each as long as it goes without a call or an index."""
    if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and sites.complexity_of_name(node) == 0):
        yield node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for part in (node.func.value, *node.args, *(keyword.value for keyword in node.keywords)):
            yield from _paths(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _paths(child)
