"""Calls: functions of the project run on their arguments, and classes make instances."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outplace.knowledge.syntax_trees import walk
from outplace.knowledge.traits import is_factory, shape_only
from outplace.source import frameworks, holders, hypotheses, python_model, torch_model
from outplace.source.class_bases import has_unknown_base
from outplace.source.frames import DEEPEST_CALL, Frame, Stop
from outplace.source.joins import is_same_constant, join, join_arms, options
from outplace.source.level_lists import given_by_level
from outplace.source.values import (
    DEFAULT_FACTORY,
    NONE,
    SEVERAL,
    UNKNOWN,
    Args,
    Bound,
    Choice,
    Class,
    Const,
    Context,
    Dictionary,
    Function,
    GradMode,
    Instance,
    Items,
    Keywords,
    Layer,
    Outside,
    Partial,
    Plain,
    Scope,
    Tensor,
    Torch,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def asks_for_shape(function: Value) -> bool:
    """True if the function reads only the shape of its arguments, such as `x.view_as(y)` or `torch.zeros_like(y)`."""
    if isinstance(function, Bound):
        return isinstance(function.function, str) and "other" in shape_only(function.function)
    return isinstance(function, Torch) and function.name.endswith("_like") and is_factory(function.name.split(".")[-1])


_READ_IN_PLACE = (ast.Name, ast.Attribute, ast.Subscript)


def _argument_of_shape(interpreter: Interpreter, node: ast.expr) -> Value:
    before = interpreter.looking_at
    interpreter.looking_at = before or isinstance(node, _READ_IN_PLACE)
    value = interpreter.eval(node)
    interpreter.looking_at = before
    return value


def _call(interpreter: Interpreter, node: ast.Call) -> Value:
    interpreter._step()
    function = interpreter.eval(node.func)
    only_shape = asks_for_shape(function)
    args: Args = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            spread = interpreter.eval(argument.value)
            args.extend(python_model.spread(spread))
            if not python_model.is_exact(spread) and torch_model.takes_sizes(node.func):
                args.append(SEVERAL)
        else:
            args.append(_argument_of_shape(interpreter, argument) if only_shape else interpreter.eval(argument))
    keywords: Keywords = {}
    for keyword in node.keywords:
        value = interpreter.eval(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Dictionary):
            keywords.update({key: item for key, item in value.items.items() if isinstance(key, str)})
    interpreter.reordered = interpreter.reordered or "memory_format" in keywords
    if isinstance(function, Unknown) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
        interpreter.tape.opaque = True
    if isinstance(function, Choice):
        return interpreter.each(function, lambda option: interpreter.call(option, args, keywords, node))
    return interpreter.call(function, args, keywords, node)


def call(interpreter: Interpreter, function: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Calls any value."""
    run = _CALLS.get(type(function))
    if run is None or (isinstance(function, Outside) and function.name.split(".")[0] not in sys.stdlib_module_names):
        for arguments in (*args, *keywords.values()):
            torch_model.forget_state(interpreter, arguments)  # `reset_net(model)`
            if not (isinstance(function, Outside) and function.name.startswith(("builtins.", "numpy."))):
                torch_model.forget_array(interpreter, arguments)  # `camera.read(frame)`
    result: Value = UNKNOWN if run is None else run(interpreter, function, args, keywords, node)
    if result is UNKNOWN and interpreter.assumes:
        return hypotheses.call_unknown(interpreter, function, args, keywords, node)
    if result is UNKNOWN and any(isinstance(arguments, Tensor) and arguments.requires_grad for arguments in args):
        caller = interpreter.frame.function
        interpreter.lost_in.update([caller.node] if caller is not None else ())
    return result


def _call_torch(interpreter: Interpreter, function: Torch, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    for value in args:
        if isinstance(value, (Items, Dictionary)) and value.stale:
            holders.check_whole(interpreter, value)
    if interpreter.frame.scope.stale and isinstance(node, ast.Call):
        holders.check_pair(interpreter, node.args, args)
    if function.operator is not None:
        return torch_model.run_operator(interpreter, function.operator, args, keywords, node)
    return torch_model.call(interpreter, function.name, args, keywords, node)


def _call_outside(interpreter: Interpreter, function: Outside, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    result = python_model.call_outside(interpreter, function.name, args, keywords, node)
    if result is UNKNOWN:
        result = frameworks.call_outside(interpreter, function.name, args, keywords, node) or UNKNOWN
    return result


def _call_partial(interpreter: Interpreter, function: Partial, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return interpreter.call(function.function, [*function.args, *args], {**function.keywords, **keywords}, node)


def _call_mode(interpreter: Interpreter, function: GradMode, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Runs `torch.no_grad()(f)`."""
    if args and isinstance(args[0], Function):
        args[0].grad = function.mode
    return args[0] if args else UNKNOWN


def _call_bound(interpreter: Interpreter, bound: Bound, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if isinstance(bound.function, Function):
        return interpreter.call_function(bound.function, [bound.receiver, *args], keywords, node)
    if isinstance(bound.function, Value):
        return interpreter.call(bound.function, [bound.receiver, *args], keywords, node)
    found = None
    if isinstance(bound.receiver, Instance):
        found = frameworks.inherited_method(interpreter, bound.receiver, bound.function, args, keywords, node)
    if found is None:
        found = torch_model.method(interpreter, bound.receiver, bound.function, args, keywords, node)
    if found is None:
        found = python_model.method(interpreter, bound.receiver, bound.function, args, keywords, node)
    return UNKNOWN if found is None else found


def _construct(interpreter: Interpreter, cls: Class, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    base = cls.torch_base()
    if base is not None and (special := torch_model.construct(cls, base, args, keywords)) is not None:
        return special
    instance = Instance(cls)
    if base is not None:
        instance.names["training"] = Const(True)
        instance.names.update(torch_model.own_state(interpreter, base))
    init = cls.find("__init__")
    if isinstance(init, Function):
        interpreter.call_function(init, [instance, *args], keywords, node)
    elif cls.fields is not None:
        _fill_fields(interpreter, instance, cls.fields, args, keywords, node)
    elif has_unknown_base(cls) and base is None:
        instance.names.update(keywords)
    elif base is not None:
        torch_model.init_container(instance, base, args)
    return instance


def _fill_fields(
    interpreter: Interpreter,
    made: Instance,
    fields: list[str],
    args: Args,
    keywords: Keywords,
    node: ast.AST,
) -> None:
    for field, value in zip(fields, args, strict=False):
        made.names[field] = value
    for field in fields[len(args) :]:
        default = made.cls.find(field)
        if isinstance(default, Bound) and default.function == DEFAULT_FACTORY and field not in keywords:
            default = interpreter.call(default.receiver, [], {}, node)
        made.names[field] = keywords.get(field, default if default is not None else UNKNOWN)
    after = made.cls.find("__post_init__")
    if isinstance(after, Function):
        interpreter.call_function(after, [made], {}, node)


def _call_instance(
    interpreter: Interpreter, instance: Instance, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    caller = instance.cls.find("__call__")
    if isinstance(caller, Function):
        return interpreter.call_function(caller, [instance, *args], keywords, node)
    if instance.cls.torch_base() is not None:
        return torch_model.run_module(interpreter, instance, args, keywords, node)
    return UNKNOWN


def call_function(interpreter: Interpreter, function: Function, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Runs a function of the project on these arguments."""
    if function.kind == "contextmanager" or (node is interpreter.lazy and _is_generator(function.node)):
        return Context(function, args, keywords)
    if function.results is not None and all(isinstance(value, Const) for value in (*args, *keywords.values())):
        return _cached(interpreter, function, args, keywords)
    interpreter.frame.calling = node
    if interpreter.assumes and len(interpreter.frames) > 1:
        return _run_with_part_of_steps(interpreter, function, args, keywords)
    return _run(interpreter, function, args, keywords)


def _run_with_part_of_steps(interpreter: Interpreter, function: Function, args: Args, keywords: Keywords) -> Value:
    """Runs a callee with a part of the remaining steps, so that enough are left for the function that is checked."""
    results: list[Value] = []
    interpreter.with_part_of_steps(lambda: results.append(_run(interpreter, function, args, keywords)))
    return results[0] if results else UNKNOWN


def _cached(interpreter: Interpreter, function: Function, args: Args, keywords: Keywords) -> Value:
    """Runs a function under `functools.cache`: equal arguments get the same object."""
    assert function.results is not None
    key = repr([value.value for value in (*args, *keywords.values())])  # type: ignore[attr-defined]
    if key not in function.results:
        function.results[key] = _run(interpreter, function, args, keywords)
    return function.results[key]


def _is_generator(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Yield) for inner in walk(node))


def run_around(
    interpreter: Interpreter,
    function: Function,
    args: Args,
    keywords: Keywords,
    at_yield: Callable[[Value], None],
) -> None:
    """Runs a generator function, and calls `at_yield` at each `yield`."""
    _run(interpreter, function, args, keywords, at_yield)


def _run(
    interpreter: Interpreter,
    function: Function,
    args: Args,
    keywords: Keywords,
    at_yield: Callable[[Value], None] | None = None,
) -> Value:
    if len(interpreter.frames) > DEEPEST_CALL or _has_recursed_enough(interpreter, function, args, keywords):
        return UNKNOWN
    interpreter.on_call(function.node)
    frame = Frame(function.module, Scope(function.scope), function.name, function)
    frame.at_yield, frame.args = at_yield, [*args, *keywords.values()]
    frame.consumer = interpreter.frame if at_yield is not None else None
    bind_arguments(function, frame.scope, args, keywords)
    mode, path, changes = interpreter.grad, interpreter.tape.path, interpreter._changes
    if function.grad is not None:
        interpreter.grad = function.grad
    interpreter.frames.append(frame)
    try:
        if isinstance(function.node, ast.Lambda):
            return interpreter.eval(function.node.body)
        ended = interpreter.block(function.node.body)
    finally:
        interpreter.frames.pop()
        interpreter.grad = mode
    interpreter.tape.path, interpreter._changes = path, changes
    if frame.yields:
        return Items(frame.yields, "list", rest=join(frame.yields))
    if ended == Stop.RAN and frame.returns:
        frame.returns.append(NONE)
        frame.return_paths.append(path)
    if len(frame.returns) < 2:
        return frame.returns[0] if frame.returns else NONE
    return join_arms(frame.returns, [arms[len(path) :] for arms in frame.return_paths])


def _has_recursed_enough(interpreter: Interpreter, function: Function, args: Args, keywords: Keywords) -> bool:
    """True if a recursion needs no further call: the arguments are not new. (The closure may have changed.)"""
    definition = function.node
    before = [frame for frame in interpreter.frames if frame.function is not None and frame.function.node is definition]
    if not before:
        return False
    rounds = 1 if function.scope is function.module.scope else 2
    arguments = [*args, *keywords.values()]
    return len(before) > 3 or (len(before) >= rounds and _are_known_already(arguments, before[-1].args))


def _are_known_already(args: Args, before: list[Value]) -> bool:
    """True if each argument is unknown, or the same constant as before."""
    for value, old in itertools.zip_longest(args, before, fillvalue=UNKNOWN):
        if not is_same_constant(value, old) and any(_is_informative(option) for option in options(value)):
            return False
    return True


def _is_informative(value: Value) -> bool:
    return not (isinstance(value, Unknown) or (isinstance(value, Plain) and value.storage is None))


def bind_arguments(function: Function, scope: Scope, args: Args, keywords: Keywords) -> None:
    """Binds the parameters of a function in its scope."""
    spec = function.node.args
    if function.parameters is None:
        by_place = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        function.parameters = (
            by_place,
            dict.fromkeys([*by_place, *[argument.arg for argument in spec.kwonlyargs]], UNKNOWN),
        )
    names, known = function.parameters
    scope.names = {**known, **function.keyword_defaults}
    defaults = function.defaults
    scope.names.update(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    scope.names.update(zip(names, args, strict=False))
    for key, value in keywords.items():
        if key in known:
            scope.names[key] = value
    _bind_lists(function, scope)
    if spec.vararg is not None:
        scope.names[spec.vararg.arg] = Items(list(args[len(names) :]), "tuple")
    if spec.kwarg is not None:
        scope.names[spec.kwarg.arg] = Dictionary({key: value for key, value in keywords.items() if key not in known})


def _bind_lists(function: Function, scope: Scope) -> None:
    """Makes parameters unknown if the function uses them as lists: a hypothesis may have made them tensors."""
    unsure = [name for name, value in scope.names.items() if isinstance(value, Tensor) and not value.known]
    if unsure and function.by_level is None:
        function.by_level = given_by_level(function)
    scope.names.update((name, UNKNOWN) for name in unsure if name in (function.by_level or ()))


_CALLS: dict[type[Value], Any] = {
    Function: call_function, Bound: _call_bound, Class: _construct, Instance: _call_instance, Torch: _call_torch,
    Layer: torch_model.run_layer, Outside: _call_outside, Partial: _call_partial, GradMode: _call_mode,
}  # fmt: skip
