"""Assignments of all kinds, and what they do to names, attributes and items."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.names import DUNDERS
from outplace.source import holders, python_model, torch_model, unseen
from outplace.source.contents import bounded
from outplace.source.frames import Stop
from outplace.source.joins import join, join_arms, options, with_paths
from outplace.source.values import UNKNOWN, Class, Function, Instance, Items, Namespace, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _assign(interpreter: Interpreter, node: ast.Assign) -> int:
    value = interpreter.eval(node.value)
    target = node.targets[0]
    if isinstance(value, Tensor) and isinstance(node.value, ast.BinOp) and _adds_to(target, node.value):
        assert isinstance(target, ast.Subscript)
        torch_model.check_index(interpreter, interpreter.eval(target.slice), node.value.op, node)
    for target in node.targets:
        interpreter.bind(target, value, node)
    return Stop.RAN


def _adds_to(target: ast.expr, value: ast.BinOp) -> bool:
    """Is it `y[i] = y[i] + v`?"""
    sides = [side for side in (value.left, value.right) if isinstance(side, ast.Subscript)]
    return isinstance(target, ast.Subscript) and ast.unparse(target) in map(ast.unparse, sides)


def _ann_assign(interpreter: Interpreter, node: ast.AnnAssign) -> int:
    if node.value is not None:
        interpreter.bind(node.target, interpreter.eval(node.value), node)
    return Stop.RAN


def _aug_assign(interpreter: Interpreter, node: ast.AugAssign) -> int:
    target = node.target
    old = interpreter.eval(target)
    value = interpreter.eval(node.value)
    new = interpreter.each(old, lambda option: _augmented(interpreter, node, option, value))
    if isinstance(target, ast.Name):
        holders.note_name(interpreter, target, old, node)
    elif isinstance(target, ast.Attribute):
        holders.note_item(interpreter.eval(target.value), node)
    if isinstance(target, ast.Subscript):
        holder = interpreter.eval(target.value)
        holders.note_item(holder, node)
        if any(isinstance(option, Tensor) for option in options(holder)):
            torch_model.check_index(interpreter, interpreter.eval(target.slice), node.op, node)
            torch_model.set_item(interpreter, holder, target, new, node, again=True)
            return Stop.RAN
        if isinstance(holder, Plain):
            torch_model.set_item(interpreter, holder, target, new, node)
            return Stop.RAN
    interpreter.bind(target, new, node)
    return Stop.RAN


def _augmented(interpreter: Interpreter, node: ast.AugAssign, old: Value, value: Value) -> Value:
    if isinstance(old, Tensor):
        return torch_model.augmented(interpreter, node, old, value)
    torch_model.forget_array(interpreter, old)
    if isinstance(old, Plain) and old.storage is not None:
        torch_model.numpy_write(interpreter, old, node)
        return old
    if isinstance(old, Items) and isinstance(node.op, ast.Add):
        python_model.extend(old, value)
        return old
    if isinstance(old, Instance) and isinstance(own := old.cls.find(f"__i{DUNDERS[type(node.op)]}__"), Function):
        return interpreter.call_function(own, [old, value], {}, node)
    return interpreter.binary(node.op, old, value, node)


def _delete(interpreter: Interpreter, node: ast.Delete) -> int:
    for target in node.targets:
        if isinstance(target, ast.Name):
            interpreter.frame.scope.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            holder, key = interpreter.eval(target.value), interpreter.eval(target.slice)
            for option in options(holder):
                python_model.delete_item(option, key)
    return Stop.RAN


def bind(interpreter: Interpreter, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Assigns a value to a target."""
    value = bounded(value)
    if isinstance(target, ast.Name):
        scope = interpreter.frames[-1].scope
        if (old := scope.names.get(target.id)) is not None:
            torch_model.note_replaced(interpreter, old, value, node)
        scope.set(target.id, value)
        if target.id in scope.stale:
            holders.note_bound(scope, target.id)
    elif isinstance(target, ast.Attribute):
        for holder in options(interpreter.eval(target.value)):
            interpreter.set_attribute(holder, target.attr, value, node)
    elif isinstance(target, ast.Subscript):
        torch_model.set_item(interpreter, interpreter.eval(target.value), target, value, node)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(interpreter, target.elts, value, node)
    elif isinstance(target, ast.Starred):
        interpreter.bind(target.value, value, node)


def _unpack(interpreter: Interpreter, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
    whole = with_paths(value)
    if any(isinstance(option, Items) for option, _ in whole):
        whole = [(option, path) for option, path in whole if not isinstance(option, Tensor)]  # the tuple is meant
    parts = [python_model.unpacked(interpreter, option, len(targets), node) for option, _ in whole]
    paths = [path for _, path in whole]
    starred = next((place for place, item in enumerate(targets) if isinstance(item, ast.Starred)), None)
    for place, target in enumerate(targets):
        if starred is not None and place >= starred:
            rest = join([item for part in parts for item in part[starred:]]) if parts else UNKNOWN
            interpreter.bind(target, Items([rest]) if place == starred else rest, node)
        else:
            interpreter.bind(target, join_arms([part[place] for part in parts], paths), node)


def set_attribute(interpreter: Interpreter, holder: Value, name: str, value: Value, node: ast.AST) -> None:
    """`holder.name = value`."""
    if isinstance(holder, Instance):
        setter = holder.cls.find(f"{name}.setter")
        if isinstance(setter, Function):
            interpreter.call_function(setter, [holder, value], {}, node)
        else:
            torch_model.note_replaced(interpreter, holder.names.get(name), value, node)
            torch_model.check_put_back(interpreter, name, holder.names.get(name), value, node)
            if holder.stale:
                holders.note_stored(holder, value)
            if interpreter.assumes:
                unseen.note_child(interpreter, holder, name, value)
            interpreter.set_name(holder.names, name, value)
    elif isinstance(holder, Class):
        interpreter.set_name(holder.names, name, value)
    elif isinstance(holder, Namespace):
        interpreter.names_of(holder)[name] = value
    else:
        torch_model.set_attribute(interpreter, holder, name, value, node)


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Assign: _assign, ast.AnnAssign: _ann_assign, ast.AugAssign: _aug_assign, ast.Delete: _delete,
}  # fmt: skip
