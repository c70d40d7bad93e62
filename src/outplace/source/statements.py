"""Statements: assignments, branches that are joined, loops, definitions, imports."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outplace.source import python_model, records, torch_model
from outplace.source.calls import run_around
from outplace.source.decisions import decision
from outplace.source.machine import LEAST_FINAL, ROUNDS, Frame, Stop, next_branch
from outplace.source.tape import Path
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Bound,
    Class,
    Context,
    Function,
    GradMode,
    Imported,
    Instance,
    Items,
    Namespace,
    Outside,
    Plain,
    Scope,
    Tensor,
    Torch,
    Value,
    join,
    join_arms,
    options,
    with_paths,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _expr(interpreter: Interpreter, node: ast.Expr) -> int:
    interpreter.eval(node.value)
    return Stop.RAN


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
    if isinstance(target, ast.Subscript):
        holder = interpreter.eval(target.value)
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
    if isinstance(old, Plain) and old.storage is not None:
        torch_model.numpy_write(interpreter, old.storage, node)
        return old
    if isinstance(old, Items) and isinstance(node.op, ast.Add):
        python_model.extend(old, value)
        return old
    if isinstance(old, Instance) and isinstance(own := old.cls.find(_IN_PLACE_METHODS[type(node.op)]), Function):
        return interpreter.call_function(own, [old, value], {}, node)
    return interpreter.binary(node.op, old, value, node)


_IN_PLACE_METHODS: dict[type[ast.operator], str] = {
    ast.Add: "__iadd__", ast.Sub: "__isub__", ast.Mult: "__imul__", ast.Div: "__itruediv__", ast.Pow: "__ipow__",
    ast.FloorDiv: "__ifloordiv__", ast.Mod: "__imod__", ast.MatMult: "__imatmul__", ast.BitAnd: "__iand__",
    ast.BitOr: "__ior__", ast.BitXor: "__ixor__", ast.LShift: "__ilshift__", ast.RShift: "__irshift__",
}  # fmt: skip


def _return(interpreter: Interpreter, node: ast.Return) -> int:
    interpreter.frame.returns.append(interpreter.eval(node.value) if node.value is not None else NONE)
    interpreter.frame.return_paths.append(interpreter.tape.path)
    return Stop.RETURNED


def _raise(interpreter: Interpreter, node: ast.Raise) -> int:
    return Stop.RAISED


def _if(interpreter: Interpreter, node: ast.If) -> int:
    known, branch, turned = decision(interpreter, node.test)
    if known is not None:
        return interpreter.block(node.body if known else node.orelse)
    arms = [lambda: interpreter.block(node.body), lambda: interpreter.block(node.orelse)]
    return _arms(interpreter, arms[::-1] if turned else arms, branch)


def _arms(interpreter: Interpreter, arms: list[Callable[[], int]], branch: int) -> int:
    """Runs each arm from the same beginning, then joins what they left behind."""
    outer_path, outer_changes = interpreter.tape.path, interpreter._changes
    scope, before = interpreter.frame.scope, dict(interpreter.frame.scope.names)
    ends: list[tuple[int, int, dict[str, Value], dict[Any, tuple[dict[str, Value], str, Value]]]] = []
    for number, arm in enumerate(arms):
        if number:
            scope.names.clear()
            scope.names.update(before)
        interpreter.tape.path, interpreter._changes = (*outer_path, (branch, number)), []
        ended = arm()
        changed = {
            (id(holder), key): (holder, key, holder[key]) for holder, key, _ in interpreter._changes if key in holder
        }
        for holder, key, old in reversed(interpreter._changes):
            if old is None:
                holder.pop(key, None)
            else:
                holder[key] = old
        ends.append((number, ended, dict(scope.names), changed))
    interpreter.tape.path, interpreter._changes = outer_path, outer_changes
    going_on = [end for end in ends if end[1] == Stop.RAN]
    joined = going_on or ends
    paths: list[Path] = [((branch, number),) for number, _, _, _ in joined]
    _join_names(scope.names, [names for _, _, names, _ in joined], paths)
    _join_attributes(interpreter, [changed for _, _, _, changed in joined], paths)
    if len(going_on) == 1 and len(ends) > 1:
        interpreter.tape.path = (*outer_path, (branch, going_on[0][0]))  # what follows runs only after this arm
    return Stop.RAN if going_on else min((end[1] for end in ends), key=LEAST_FINAL.index)


def _join_names(names: dict[str, Value], ends: list[dict[str, Value]], paths: list[Path]) -> None:
    names.clear()
    names.update(ends[0])
    if len(ends) == 1:
        return
    for name in {name: None for end in ends[1:] for name, value in end.items() if names.get(name) is not value}:
        bound = [(end[name], path) for end, path in zip(ends, paths, strict=True) if name in end]
        names[name] = join_arms([value for value, _ in bound], [path for _, path in bound])


def _join_attributes(
    interpreter: Interpreter, ends: list[dict[Any, tuple[dict[str, Value], str, Value]]], paths: list[Path]
) -> None:
    for key in dict.fromkeys(key for end in ends for key in end):
        holder, name, _ = next(end[key] for end in ends if key in end)
        values = [end[key][2] if key in end else holder.get(name) for end in ends]
        bound = [(value, path) for value, path in zip(values, paths, strict=True) if value is not None]
        interpreter.set_name(holder, name, join_arms([value for value, _ in bound], [path for _, path in bound]))


def _for(interpreter: Interpreter, node: ast.For) -> int:
    interpreter.lazy = node.iter
    iterable = interpreter.eval(node.iter)
    interpreter.lazy = None
    if isinstance(iterable, Instance) and isinstance(own := iterable.cls.find("__iter__"), Function):
        interpreter.lazy = node
        made = interpreter.call_function(own, [iterable], {}, node)
        iterable, interpreter.lazy = made, None
    if isinstance(iterable, Context):
        return _for_each_yield(interpreter, iterable, node)
    rounds = python_model.iterate(interpreter, iterable, node, least=_rounds(interpreter))
    interpreter._loops += 1
    ended = _run_rounds(interpreter, node, rounds)
    interpreter._loops -= 1
    return ended if ended or not node.orelse else interpreter.block(node.orelse)


def _for_each_yield(interpreter: Interpreter, generator: Context, node: ast.For) -> int:
    """What the body writes, the generator finds written when it goes on."""
    ends: list[int] = []
    own = list(interpreter.frames)

    def body(value: Value) -> None:
        if Stop.BROKE in ends or Stop.RETURNED in ends:
            return
        kept, interpreter.frames = interpreter.frames, own
        path = interpreter.tape.path
        try:
            interpreter.bind(node.target, value, node)
            ends.append(interpreter.block(node.body))
        finally:
            interpreter.frames, interpreter.tape.path = kept, path

    run_around(interpreter, generator.function, generator.args, generator.keywords, body)
    return Stop.RETURNED if Stop.RETURNED in ends else Stop.RAN


def _rounds(interpreter: Interpreter) -> int:
    return ROUNDS if interpreter._loops == 0 else ROUNDS - 1


def _run_rounds(interpreter: Interpreter, node: ast.For, rounds: list[Value]) -> int:
    path = interpreter.tape.path
    for item in rounds:
        interpreter.bind(node.target, item, node)
        ended = interpreter.block(node.body)
        interpreter.tape.path = path  # an arm that went on with the next round decides nothing about that round
        if ended in (Stop.RETURNED, Stop.RAISED):
            return ended
        if ended == Stop.BROKE:
            break
    return Stop.RAN


def _while(interpreter: Interpreter, node: ast.While) -> int:
    path = interpreter.tape.path
    for _ in range(_rounds(interpreter)):
        if interpreter.truth(interpreter.eval(node.test)) is False:
            break
        ended = interpreter.block(node.body)
        interpreter.tape.path = path
        if ended in (Stop.RETURNED, Stop.RAISED):
            return ended
        if ended == Stop.BROKE:
            break
    return Stop.RAN


def _with(interpreter: Interpreter, node: ast.With | ast.AsyncWith) -> int:
    return _within(interpreter, node, node.items)


def _within(interpreter: Interpreter, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> int:
    """The block, inside the first of these context managers, inside the others."""
    if not items:
        return interpreter.block(node.body)
    item, mode = items[0], interpreter.grad
    manager = interpreter.eval(item.context_expr)
    if isinstance(manager, Context):
        return _around(interpreter, manager, node, items)
    if isinstance(manager, GradMode):
        interpreter.grad = manager.mode
    entered: Value = manager
    if isinstance(manager, Instance) and isinstance(enter := manager.cls.find("__enter__"), Function):
        entered = interpreter.call_function(enter, [manager], {}, node)
    if item.optional_vars is not None:
        interpreter.bind(item.optional_vars, entered, node)
    ended = _within(interpreter, node, items[1:])
    interpreter.grad = mode
    for callback in records.callbacks(manager):
        interpreter.call(callback.items[0], callback.items[1:], {}, node)
    if isinstance(manager, Instance) and isinstance(leave := manager.cls.find("__exit__"), Function):
        interpreter.call_function(leave, [manager, NONE, NONE, NONE], {}, node)
    return ended


def _around(
    interpreter: Interpreter, manager: Context, node: ast.With | ast.AsyncWith, items: list[ast.withitem]
) -> int:
    """A generator is run, and the block at the moment it yields, in the frame that the statement stands in."""
    ends: list[int] = []
    own = list(interpreter.frames)

    def block(value: Value) -> None:
        kept, interpreter.frames = interpreter.frames, own
        try:
            if items[0].optional_vars is not None:
                interpreter.bind(items[0].optional_vars, value, node)
            ends.append(_within(interpreter, node, items[1:]))
        finally:
            interpreter.frames = kept

    run_around(interpreter, manager.function, manager.args, manager.keywords, block)
    return ends[0] if ends else _within(interpreter, node, items[1:])


def _try(interpreter: Interpreter, node: Any) -> int:
    def body() -> int:
        ended = interpreter.block(node.body)
        return interpreter.block(node.orelse) if not ended and node.orelse else ended

    handlers = [_handler(interpreter, handler) for handler in node.handlers]
    ended = _arms(interpreter, [body, *handlers], next_branch()) if handlers else body()
    finally_ended = interpreter.block(node.finalbody) if node.finalbody else Stop.RAN
    return finally_ended or ended


def _handler(interpreter: Interpreter, handler: ast.ExceptHandler) -> Callable[[], int]:
    def run() -> int:
        if handler.name:
            interpreter.frame.scope.set(handler.name, UNKNOWN)
        return interpreter.block(handler.body)

    return run


def _function_def(interpreter: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    function = interpreter.make_function(node, node.name)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        value = _decorated(interpreter, function, value, interpreter.eval(decorator), decorator)
    interpreter.frame.scope.set(node.name, value)
    return Stop.RAN


def make_function(interpreter: Interpreter, node: Any, name: str) -> Function:
    """A function value, with its defaults evaluated now."""
    outer = interpreter.frame.name
    full = name if outer == "<module>" else f"{outer}.{name}"
    function = Function(node, interpreter.frame.module, interpreter.frame.scope, full)
    function.defaults = [interpreter.eval(default) for default in node.args.defaults]
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            function.keyword_defaults[argument.arg] = interpreter.eval(default)
    return function


def _decorated(interpreter: Interpreter, function: Function, value: Value, decorator: Value, node: ast.expr) -> Value:
    name = _last_name(node)
    if isinstance(decorator, GradMode):
        function.grad = decorator.mode
    elif isinstance(decorator, Torch) and decorator.name in torch_model.GRAD_MODES:
        function.grad = torch_model.GRAD_MODES[decorator.name]
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
        made = interpreter.call(_brief(decorator), [value], {}, node)
        return made if isinstance(made, (Function, Bound)) else value
    return value


def _last_name(node: ast.expr) -> str:
    """`cache` for `cache`, `functools.cache` and `functools.cache()`."""
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _class_def(interpreter: Interpreter, node: ast.ClassDef) -> int:
    bases = [interpreter.eval(base) for base in node.bases]
    name = node.name if interpreter.frame.name == "<module>" else f"{interpreter.frame.name}.{node.name}"
    made = Class(node, interpreter.frame.module, bases, name)
    scope = Scope(interpreter.frame.scope, made.names)
    frame = Frame(interpreter.frame.module, scope, name)
    interpreter._in_frame(frame, lambda: interpreter.block(node.body))
    for value in made.names.values():
        if isinstance(value, Function) and value.owner is None:
            value.owner = made
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
        made.fields = [*inherited, *own]
    interpreter.frame.scope.set(node.name, made)
    return Stop.RAN


def _import(interpreter: Interpreter, node: ast.Import) -> int:
    for alias in node.names:
        value = interpreter.import_module(alias.name)
        if alias.asname is None and "." in alias.name:
            value = interpreter.import_module(alias.name.split(".")[0])
        interpreter.frame.scope.set(alias.asname or alias.name.split(".")[0], value)
    return Stop.RAN


def _import_from(interpreter: Interpreter, node: ast.ImportFrom) -> int:
    base = node.module or ""
    if node.level:
        package = interpreter.frame.module.package.split(".")
        kept = package[: len(package) - (node.level - 1)]
        base = ".".join([*kept, *([base] if base else [])])
    holder = interpreter.import_module(base) if base else UNKNOWN
    for alias in node.names:
        if alias.name == "*":
            if isinstance(holder, Namespace):
                interpreter.frame.scope.names.update(interpreter.names_of(holder))
            continue
        value: Value
        if isinstance(holder, Namespace):
            value = Imported(holder, alias.name)
        elif isinstance(inner := interpreter.import_module(f"{base}.{alias.name}") if base else UNKNOWN, Namespace):
            value = inner
        else:
            value = interpreter.attribute(holder, alias.name, node)
        interpreter.frame.scope.set(alias.asname or alias.name, value)
    return Stop.RAN


def _global(interpreter: Interpreter, node: ast.Global) -> int:
    for name in node.names:
        interpreter.frame.scope.shared[name] = interpreter.frame.module.scope
    return Stop.RAN


def _nonlocal(interpreter: Interpreter, node: ast.Nonlocal) -> int:
    for name in node.names:
        scope = interpreter.frame.scope.outer
        while scope is not None and name not in scope.names:
            scope = scope.outer
        if scope is not None:
            interpreter.frame.scope.shared[name] = scope
    return Stop.RAN


def _delete(interpreter: Interpreter, node: ast.Delete) -> int:
    for target in node.targets:
        if isinstance(target, ast.Name):
            interpreter.frame.scope.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            holder, key = interpreter.eval(target.value), interpreter.eval(target.slice)
            for option in options(holder):
                python_model.delete_item(option, key)
    return Stop.RAN


def _assert(interpreter: Interpreter, node: ast.Assert) -> int:
    interpreter.eval(node.test)
    return Stop.RAN


def _match(interpreter: Interpreter, node: Any) -> int:
    interpreter.eval(node.subject)
    cases = [lambda case=case: interpreter.block(case.body) for case in node.cases]
    return _arms(interpreter, [*cases, lambda: Stop.RAN], next_branch())


def bind(interpreter: Interpreter, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Assigns a value to a target."""
    if isinstance(target, ast.Name):
        scope = interpreter.frames[-1].scope
        if (old := scope.names.get(target.id)) is not None:
            torch_model.note_replaced(interpreter, old, value, node)
        scope.set(target.id, value)
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
            interpreter.set_name(holder.names, name, value)
    elif isinstance(holder, Class):
        interpreter.set_name(holder.names, name, value)
    elif isinstance(holder, Namespace):
        interpreter.names_of(holder)[name] = value
    else:
        torch_model.set_attribute(interpreter, holder, name, value, node)


def _brief(decorator: Function) -> Function:
    """A decorator that hands its function back, without the blocks in which it keeps books about other things."""
    if decorator.brief is None:
        decorator.brief = decorator
        given = _handed_back(decorator.node)
        if given is not None:
            node: Any = copy.copy(decorator.node)
            node.body = [part for part in node.body if not hasattr(part, "body") or given in _names_in(part)]
            decorator.brief = Function(node, decorator.module, decorator.scope, decorator.name)
    return decorator.brief


def _handed_back(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str | None:
    """The only parameter of a function that always returns it."""
    names = [argument.arg for argument in node.args.args]
    if isinstance(node, ast.Lambda) or len(names) != 1:
        return None
    for part in ast.walk(node):
        if isinstance(part, (ast.FunctionDef, ast.Lambda)) and part is not node:
            return None
        if isinstance(part, ast.Return) and not (isinstance(part.value, ast.Name) and part.value.id == names[0]):
            return None
        if isinstance(part, ast.Name) and part.id == names[0] and not isinstance(part.ctx, ast.Load):
            return None
    return names[0]


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _touches_tensors(decorator: Function) -> bool:
    """Other decorators (registries, caches, timers) leave what matters here as it is."""
    node = decorator.node
    body = "\n".join(decorator.module.lines[node.lineno - 1 : node.end_lineno])
    return re.search(r"grad|inference_mode|[-+*/]=|\w_\(|\]\s*=[^=]", body) is not None


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _expr, ast.Assign: _assign, ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign, ast.Return: _return, ast.Raise: _raise,
    ast.If: _if, ast.For: _for, ast.AsyncFor: _for, ast.While: _while,
    ast.With: _with, ast.AsyncWith: _with, ast.Try: _try,
    ast.FunctionDef: _function_def, ast.AsyncFunctionDef: _function_def,
    ast.ClassDef: _class_def, ast.Import: _import, ast.ImportFrom: _import_from,
    ast.Global: _global, ast.Nonlocal: _nonlocal, ast.Delete: _delete,
    ast.Assert: _assert, ast.Match: _match,
    ast.Break: lambda _interpreter, _node: Stop.BROKE, ast.Continue: lambda _interpreter, _node: Stop.CONTINUED,
}  # fmt: skip
if hasattr(ast, "TryStar"):
    STATEMENTS[ast.TryStar] = _try
