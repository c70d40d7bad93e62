"""Functions, with what their decorators do to them, and classes."""

from __future__ import annotations

import ast
import copy
import re
from typing import TYPE_CHECKING, Any

from outplace.knowledge.syntax_trees import walk
from outplace.source import torch_model
from outplace.source.frames import Frame, Stop
from outplace.source.values import Bound, Class, Function, GradMode, Outside, Scope, Tensor, Torch, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _function_def(interpreter: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    function = interpreter.make_function(node, node.name)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        value = _decorated(interpreter, function, value, interpreter.eval(decorator), decorator)
    interpreter.frame.scope.set(node.name, value)
    if value is not function:
        interpreter.frame.scope.set(f"{node.name}.undecorated", function)  # a name that no program can look up
    return Stop.RAN


def make_function(interpreter: Interpreter, node: Any, name: str) -> Function:
    """A function value, with its defaults evaluated now."""
    outer = interpreter.frame.name
    full = name if outer == "<module>" else f"{outer}.{name}"
    function = Function(node, interpreter.frame.module, interpreter.frame.scope, full)
    function.defaults = [_shared(interpreter.eval(default)) for default in node.args.defaults]
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            function.keyword_defaults[argument.arg] = _shared(interpreter.eval(default))
    return function


def _shared(default: Value) -> Value:
    """The default of an argument. All calls get this very value."""
    if isinstance(default, Tensor):
        default.shared_default = True
    return default


def _decorated(interpreter: Interpreter, function: Function, value: Value, decorator: Value, node: ast.expr) -> Value:
    name = _last_name(node)
    if isinstance(decorator, GradMode):
        function.grad = decorator.mode
    elif isinstance(decorator, Torch) and decorator.name in torch_model.GRAD_MODES:
        function.grad = torch_model.GRAD_MODES[decorator.name]
    elif torch_model.defines_operator(decorator):
        return interpreter.call(decorator, [value], {}, node)
    elif name in ("staticmethod", "classmethod", "property", "setter", "cached_property"):
        function.kind = name
        if name == "setter":
            getter = interpreter.frame.scope.names.get(function.node.name)  # type: ignore[union-attr]
            if isinstance(getter, Function):
                interpreter.frame.scope.names[f"{getter.node.name}.setter"] = function  # type: ignore[union-attr]
                return getter
    elif name in ("cache", "lru_cache"):
        function.results = {}
    elif name in ("contextmanager", "asynccontextmanager"):
        function.kind = "contextmanager"
    elif isinstance(decorator, Function) and _touches_tensors(decorator):
        result = interpreter.call(_brief(decorator), [value], {}, node)
        return result if isinstance(result, (Function, Bound)) else value
    return value


def _last_name(node: ast.expr) -> str:
    """`cache` for `cache`, `functools.cache` and `functools.cache()`."""
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _brief(decorator: Function) -> Function:
    """A decorator that hands its function back, without the blocks in which it keeps books about other things."""
    if decorator.brief is None:
        decorator.brief = decorator
        returned = _handed_back(decorator.node)
        if returned is not None:
            node: Any = copy.copy(decorator.node)
            node.body = [part for part in node.body if not hasattr(part, "body") or _uses(part, returned)]
            decorator.brief = Function(node, decorator.module, decorator.scope, decorator.name)
    return decorator.brief


def _handed_back(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str | None:
    """The only parameter of a function that always returns it."""
    names = [argument.arg for argument in node.args.args]
    if isinstance(node, ast.Lambda) or len(names) != 1:
        return None
    for part in walk(node):
        if isinstance(part, (ast.FunctionDef, ast.Lambda)) and part is not node:
            return None
        if isinstance(part, ast.Return) and not (isinstance(part.value, ast.Name) and part.value.id == names[0]):
            return None
        if isinstance(part, ast.Name) and part.id == names[0] and not isinstance(part.ctx, ast.Load):
            return None
    return names[0]


def _uses(node: ast.AST, name: str) -> bool:
    """Does it do more with a function than read `__name__` and the like?"""
    about = {id(part.value) for part in walk(node) if isinstance(part, ast.Attribute) and _is_about(part)}
    return any(isinstance(part, ast.Name) and part.id == name and id(part) not in about for part in walk(node))


def _is_about(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load) and node.attr in _ABOUT


_ABOUT = {"__name__", "__qualname__", "__module__", "__doc__"}
"""Attributes that describe a function."""


def _touches_tensors(decorator: Function) -> bool:
    """Other decorators (registries, caches, timers) leave what matters here as it is."""
    node = decorator.node
    body = "\n".join(decorator.module.lines[node.lineno - 1 : node.end_lineno])
    return re.search(r"grad|inference_mode|[-+*/]=|\w_\(|\]\s*=[^=]", body) is not None


def _class_def(interpreter: Interpreter, node: ast.ClassDef) -> int:
    bases = [interpreter.eval(base) for base in node.bases]
    name = node.name if interpreter.frame.name == "<module>" else f"{interpreter.frame.name}.{node.name}"
    new_class = Class(node, interpreter.frame.module, bases, name)
    scope = Scope(interpreter.frame.scope, new_class.names)
    frame = Frame(interpreter.frame.module, scope, name)
    interpreter.in_frame(frame, lambda: interpreter.block(node.body))
    for value in new_class.names.values():
        if isinstance(value, Function) and value.owner is None:
            value.owner = new_class
            if value.scope is scope:
                value.scope = interpreter.frame.scope  # a method does not see the names of its class
    decorators = [_last_name(decorator) for decorator in node.decorator_list]
    named = any(isinstance(base, Outside) and base.name == "typing.NamedTuple" for base in bases)
    if "dataclass" in decorators or named:
        inherited = [field for base in bases if isinstance(base, Class) for field in base.fields or []]
        own = [
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        new_class.fields, new_class.frozen = [*inherited, *own], named or any(map(_freezes, node.decorator_list))
    interpreter.frame.scope.set(node.name, new_class)
    return Stop.RAN


def _freezes(decorator: ast.expr) -> bool:
    """`@dataclass(frozen=True)`."""
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return any(
        keyword.arg == "frozen" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in keywords
    )


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.FunctionDef: _function_def, ast.AsyncFunctionDef: _function_def, ast.ClassDef: _class_def,
}  # fmt: skip
