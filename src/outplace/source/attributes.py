"""Names and attributes, looked up the way Python does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.traits import reads_nothing
from outplace.source import frameworks, holders, hypotheses, python_model, torch_model, unseen
from outplace.source.class_bases import has_unknown_base
from outplace.source.joins import narrowed
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Function,
    Imported,
    Instance,
    Namespace,
    Outside,
    Scope,
    Super,
    Tensor,
    Torch,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _attribute(interpreter: Interpreter, node: ast.Attribute) -> Value:
    before = interpreter.looking_at
    interpreter.looking_at = before or reads_nothing(node.attr)
    holder = interpreter.eval(node.value)
    interpreter.looking_at = before
    if isinstance(holder, Choice):
        found = interpreter.each(holder, lambda option: interpreter.attribute(option, node.attr, node))
    else:
        found = interpreter.attribute(holder, node.attr, node)
    return narrowed(found, interpreter.tape.path) if isinstance(found, Choice) else found


def attribute(interpreter: Interpreter, holder: Value, name: str, node: ast.AST) -> Value:
    """`holder.name`."""
    run = _ATTRIBUTES.get(type(holder))
    if run is not None:
        found: Value = run(interpreter, holder, name, node)
        return found
    found_value = torch_model.attribute(interpreter, holder, name, node)
    if found_value is None and isinstance(holder, Tensor) and hypotheses.is_output(interpreter, holder, name):
        return hypotheses.named_part(interpreter, holder, name)
    return found_value if found_value is not None else Bound(name, holder)


def _instance_attribute(interpreter: Interpreter, holder: Instance, name: str, node: ast.AST) -> Value:
    if name in holder.names:
        if holder.stale:
            holders.check_item(interpreter, holder, holder.names[name])
        return UNKNOWN if _is_kept_elsewhere(holder, holder.names[name]) else holder.names[name]
    found = holder.cls.find(name)
    if isinstance(found, Function):
        if found.kind in ("property", "cached_property"):
            return interpreter.call_function(found, [holder], {}, node)
        return (
            found
            if found.kind == "staticmethod"
            else Bound(found, holder.cls if found.kind == "classmethod" else holder)
        )
    if found is not None:
        return found
    if name == "__dict__":
        return UNKNOWN
    base = holder.cls.torch_base()
    if base is not None:
        return torch_model.object_attribute(interpreter, holder, base, name)
    if frameworks.knows_method(holder.cls, name):
        return Bound(name, holder)
    return UNKNOWN if holder.cls.find("__getattr__") or has_unknown_base(holder.cls) else Bound(name, holder)


def _is_kept_elsewhere(holder: Instance, value: Value) -> bool:
    """A class with a `__setattr__` of its own may keep a state where others (its `reset`) change it."""
    state = isinstance(value, Choice) or (isinstance(value, Tensor) and not value.parameter)
    return state and isinstance(holder.cls.find("__setattr__"), Function)


def _class_attribute(interpreter: Interpreter, holder: Class, name: str, node: ast.AST) -> Value:
    found = holder.find(name)
    if isinstance(found, Function) and found.kind == "classmethod":
        return Bound(found, holder)
    return found if found is not None else Bound(name, holder)


def _super_attribute(interpreter: Interpreter, holder: Super, name: str, node: ast.AST) -> Value:
    lineage = holder.receiver.cls.lineage() if isinstance(holder.receiver, Instance) else []
    after = lineage[lineage.index(holder.after) + 1 :] if holder.after in lineage else []
    for base in after:
        if isinstance(base, Class) and name in base.names:
            found = base.names[name]
            return Bound(found, holder.receiver) if isinstance(found, Function) else found
        if isinstance(base, Torch):
            return torch_model.super_attribute(holder.receiver, base.name, name)
    return Bound(name, NONE)


def _resolved(interpreter: Interpreter, value: Value, seen: set[tuple[str, str]]) -> Value:
    """What an imported name stands for, through modules that import it themselves."""
    while isinstance(value, Imported):
        key = (value.module.path, value.name)
        if key in seen:
            return UNKNOWN
        seen.add(key)
        found = interpreter.names_of(value.module).get(value.name)
        if found is None:
            path = interpreter.project.find(f"{value.module.name}.{value.name}", interpreter.frame.module)
            return UNKNOWN if path is None else Namespace(path, f"{value.module.name}.{value.name}")
        value = found
    return value


def _name(interpreter: Interpreter, node: ast.Name) -> Value:
    scope: Scope | None = interpreter.frames[-1].scope
    name, value = node.id, None
    while scope is not None:  # as `Scope.get` does
        value = scope.names.get(name)
        if value is not None:
            if scope.stale:
                holders.check_name(interpreter, scope, name, value)
            break
        scope = scope.outer
    if value is None:
        return python_model.builtin(name)
    kind = value.__class__
    if kind is Choice:
        return narrowed(value, interpreter.tape.path)  # type: ignore[arg-type]
    return _resolved(interpreter, value, set()) if kind is Imported else value


_ATTRIBUTES: dict[type[Value], Any] = {
    Instance: _instance_attribute,
    Class: _class_attribute,
    Super: _super_attribute,
    Torch: lambda _i, holder, name, _n: torch_model.torch_attribute(f"{holder.name}.{name}"),
    Namespace: lambda interpreter, holder, name, _n: _resolved(interpreter, Imported(holder, name), set()),
    Outside: lambda _i, holder, name, _n: python_model.outside(f"{holder.name}.{name}"),
    Unknown: lambda _i, _h, _name, _n: UNKNOWN,
    unseen.Unseen: unseen.attribute,
}
