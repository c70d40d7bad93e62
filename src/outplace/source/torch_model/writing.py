"""Writes: what PyTorch refuses at once, and what a write does to the graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge import ops
from outplace.knowledge.derivatives import step_of
from outplace.knowledge.silent_rules.gradients import GRADIENT_BY_REFERENCE
from outplace.knowledge.silent_rules.lists import (
    SAME_BUFFER_APPENDED,
    SAME_TENSOR_APPENDED,
    SAME_TENSOR_REPEATED,
    SAME_VIEW_APPENDED,
)
from outplace.knowledge.silent_rules.lost import REPEATED_INDEX
from outplace.knowledge.silent_rules.two_names import DEFAULT_ARGUMENT_WRITTEN
from outplace.knowledge.syntax_trees import text_of
from outplace.knowledge.traits import has, only_reshapes
from outplace.source.graph import Hit, Node, Storage, Write, compatible
from outplace.source.overlaps import Region, overlap, touches
from outplace.source.torch_model import dtypes
from outplace.source.torch_model.tensors import is_stale, requires_grad
from outplace.source.values import Items, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_REFUSED_VIEWS = {"multi": "multi-view", "custom": "custom-view", "nograd": "nograd-view"}


def rebase(interpreter: Interpreter, target: Tensor, node: Node | None, grad: bool | None) -> None:
    """A recorded write: the tensor, its base and all views now depend on the new node."""
    if target.leaf and target.requires_grad:
        return  # PyTorch has refused it
    if node is not None:
        for before in (target.node, target.family.node):
            if before is not None and before not in node.inputs:
                node.inputs.append(before)
        node.refused = _is_refused_view(interpreter, target)
    target.family.node = node
    target.family.grad = grad
    target.family.since, target.family.sure = interpreter.tape.tick(), target.certain
    target.requires_grad, target.node, target.leaf = grad, node, False
    target.since = target.family.since


def _is_refused_view(interpreter: Interpreter, target: Tensor) -> bool:
    """A view that may not be written with grad on, for sure."""
    if interpreter.grad != "on" or target.untracked or not (target.certain and target.known and target.view_sure):
        return False
    return target.view in _REFUSED_VIEWS


def _was_refused(interpreter: Interpreter, target: Tensor) -> bool:
    """Has the last write to it been refused, on every way here? Then what mends that one makes another tensor of it."""
    last = target.node
    return last is not None and last.refused and set(last.path) <= set(interpreter.tape.path)


def target_text(node: ast.AST) -> str:
    """What the source calls the tensor that is written."""
    if isinstance(node, ast.AugAssign):
        return text_of(node.target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        of_torch = text_of(node.func.value).split(".")[0] in ("torch", "F", "nn")
        return text_of(node.args[0] if of_torch and node.args else node.func.value)
    if isinstance(node, ast.Call) and node.args and not isinstance(node.func, ast.Name):
        return text_of(node.args[0])
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return text_of(node.targets[0].value)
    return ""


def check_write(
    interpreter: Interpreter,
    target: Tensor,
    node: ast.AST,
    operation: str,
    others: list[Tensor],
    op: ops.Op | None = None,
) -> None:
    """The kinds that PyTorch refuses where the operation stands."""
    sure = target.certain and target.known
    if target.gradient is not None:
        rule, shared = target.gradient
        interpreter.hit_silent(rule, node, sure and shared)
    if target.shared_default and step_of(operation):
        interpreter.hit_silent(DEFAULT_ARGUMENT_WRITTEN, node, False)
    if target.fills_list:
        interpreter.hit_silent(SAME_TENSOR_REPEATED, node, sure)
    if target.inference and interpreter.grad != "inference":
        interpreter.hit("inference", node, sure, "written")
        target.storage.refused |= sure
    excess = dtypes.excess(target, op, others, node) if op is not None else None
    if excess is not None:
        really = sure and target.dtype != "float"  # few operations are known to give real numbers
        interpreter.hit("shape-dtype", node, really, "complex dtype" if excess == "complex" else "dtype")
    recorded = requires_grad(target) or (True in [requires_grad(other) for other in others])
    if target.expanded and _cannot_be_expanded(operation, recorded is True and interpreter.grad == "on"):
        interpreter.hit("expanded", node, sure)
    if interpreter.grad == "on" and not target.untracked:
        _check_recorded_write(interpreter, target, node, operation, bool(recorded), sure)


def _check_recorded_write(
    interpreter: Interpreter, target: Tensor, node: ast.AST, operation: str, recorded: bool, sure: bool
) -> None:
    """Views and leaves that may not be written with grad on; `recorded` if the target or an operand requires grad."""
    if target.view == "nograd":
        sure = sure and (recorded or target.family.sure)
        recorded = recorded or bool(target.family.grad)  # it is the base that counts
    owner = target.family.leaf
    if recorded and target.view in _REFUSED_VIEWS:
        if not _was_refused(interpreter, target):
            really = target.known and target.view_sure if target.view == "multi" else sure
            interpreter.hit(_REFUSED_VIEWS[target.view], node, really)
    elif is_stale(target) and not operation.startswith("item assignment"):
        interpreter.hit("leaf", node, sure and target.family.sure, "stale")
    elif owner is not None and owner.requires_grad:
        on_view = target is not owner and target.view not in (None, "detached")
        interpreter.hit("leaf-view" if on_view or operation == "item assignment by view" else "leaf", node, sure)


def _cannot_be_expanded(operation: str, recorded: bool) -> bool:
    """Does PyTorch refuse the write? Some writes it lets through, and refuses their backward."""
    if only_reshapes(operation):
        return False
    if has(operation, "fills_expanded") or operation == "item assignment by index":
        return recorded
    return not operation.startswith("item assignment")  # which elements an index picks is not known here


def check_overlap(
    interpreter: Interpreter,
    target: Tensor,
    written: Region | None,
    operation: str,
    others: list[Tensor],
    node: ast.AST,
) -> None:
    """An operation that reads memory which it writes at another place."""
    if operation.startswith("masked_"):
        return
    for other in others:
        if other.storage is target.storage and target.certain and other.certain:
            whole = other is target or (written == () and other.region is not None)
            by_index = operation == "item assignment by index" or has(operation, "refuses_itself")
            anywhere = by_index and whole
            if anywhere or overlap(written, other.region):
                interpreter.hit("overlap", node, target.known and None not in (*(written or ()), *(other.region or ())))


def check_index(interpreter: Interpreter, index: Value, op: ast.operator, node: ast.stmt) -> None:
    """`y[index] += v` adds once for each place, however often the index names it."""
    if isinstance(op, (ast.Add, ast.Sub)) and isinstance(index, Tensor) and index.repeats is not False:
        interpreter.hit_silent(REPEATED_INDEX, node, bool(index.repeats))


def check_appended(interpreter: Interpreter, holder: Items, tensor: Tensor) -> None:
    """One tensor, or view of it, appended again and again, and written in between: all entries are its last state."""
    tape = interpreter.tape
    if not tensor.known:
        return  # numbers are counted up and appended everywhere
    same = next((entry for item in holder.items for entry in _tensors(item) if _is_same(entry, tensor)), tensor)
    since, path = holder.appended.setdefault(id(same), (tape.tick(), tape.path))
    if any(_is_or_holds(item, same) for item in holder.items) and compatible(path, tape.path):
        for write in tensor.storage.writes:
            changed = same is tensor or touches(write.region, tensor.region)
            if changed and write.time > since and write.operation != "detach_":
                rule = SAME_TENSOR_APPENDED if same is tensor else SAME_VIEW_APPENDED
                interpreter.tape.hits.append(Hit.silent(rule, write, write.place, False))


def check_appended_array(interpreter: Interpreter, holder: Items, storage: Storage) -> None:
    """The same for arrays that lie over a tensor: `frames.append(x.numpy())`."""
    tape = interpreter.tape
    known = id(storage) in holder.appended
    since, path = holder.appended.setdefault(id(storage), (tape.tick(), tape.path))
    for write in storage.writes if known and compatible(path, tape.path) else ():
        if write.time > since:
            tape.hits.append(Hit.silent(SAME_BUFFER_APPENDED, write, write.place, False))


def _tensors(item: Value) -> list[Tensor]:
    return [entry for entry in (item.items if isinstance(item, Items) else [item]) if isinstance(entry, Tensor)]


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Are they surely one piece of memory: one tensor, or two views of the same part of one?"""
    if one is other:
        return True
    views = one.view is not None and other.view is not None and one.storage is other.storage
    known = one.certain and other.certain and None not in (one.region or (None,))
    return views and known and one.anchor is other.anchor and one.region == other.region


def _is_or_holds(item: Value, tensor: Tensor) -> bool:
    return item is tensor or (isinstance(item, Items) and any(part is tensor for part in item.items))


def check_kept_gradient(interpreter: Interpreter, gradient: Tensor) -> None:
    """`g = p.grad` is read after a backward has added to that very tensor, or it was set to zero."""
    tape = interpreter.tape
    for write in gradient.storage.writes:
        later = write.time > (gradient.read or 0) and compatible(write.path, tape.path)
        if later and write.operation in ("backward", "zero_grad"):
            tape.hits.append(Hit.silent(GRADIENT_BY_REFERENCE, write, write.place, False))


def numpy_write(interpreter: Interpreter, array: Plain, node: ast.AST) -> None:
    """A write through a numpy array, which autograd cannot see."""
    tape = interpreter.tape
    if array.storage is not None:
        write = Write(tape.tick(), tape.path, interpreter.place(node), "numpy", array.sure, tracked=False)
        array.storage.writes.append(write)
