"""The builtin functions."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outplace.source import holders, torch_model
from outplace.source.class_bases import has_unknown_base
from outplace.source.contents import is_exact, set_item, truth
from outplace.source.graph import Path
from outplace.source.joins import join, options, with_paths
from outplace.source.python_model.containers import iterate
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Instance,
    Items,
    Keywords,
    Layer,
    Plain,
    Super,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


_MOST_NUMBERS = 4
"""Longer ranges are not gone through one by one."""


def _range(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    ends = [arg.value for arg in args if isinstance(arg, Const) and isinstance(arg.value, int)]
    if args and len(ends) == len(args) and (len(ends) < 3 or ends[2]):
        numbers = range(*ends)
        shown = numbers if len(numbers) <= _MOST_NUMBERS else numbers[:2]
        items: list[Value] = [Const(number) for number in shown]
        return Items(items, rest=PLAIN if len(numbers) > len(shown) else None)
    first: list[Value] = [Const(0)] if len(args) == 1 else [arg for arg in args[:1] if isinstance(arg, Const)]
    return Items(first, rest=PLAIN)


def _slice(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    """`slice(None, half)`, to be used as an index later."""
    if 1 <= len(args) <= 3 and all(isinstance(arg, Const) for arg in args):
        return Const(slice(*(arg.value for arg in args)))  # type: ignore[attr-defined]
    return Bound("slice", PLAIN)


def _zip(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    columns = [iterate(interpreter, arg, node, most=8) for arg in args]
    exact = any(is_exact(arg) for arg in args)
    length = min((len(column) for column in columns), default=0)
    rows: list[Value] = [Items([column[place] for column in columns], "tuple") for place in range(length)]
    others = [_remaining(arg, column) for arg, column in zip(args, columns, strict=True)] if rows else []
    return Items(rows, rest=None if exact or not rows else Items(others, "tuple"))


def _remaining(of: Value, column: list[Value]) -> Value:
    """What stands for the items that were not gone through."""
    return of.rest if isinstance(of, Items) and of.rest is not None else column[-1]


def _enumerate(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    items = iterate(interpreter, args[0], node, most=8) if args else []
    rows: list[Value] = [Items([Const(place), item], "tuple") for place, item in enumerate(items)]
    exact = bool(args) and is_exact(args[0])
    return Items(rows, rest=None if exact or not rows else Items([PLAIN, _remaining(args[0], items)], "tuple"))


def _as_list(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    if not args:
        return Items([])
    if isinstance(args[0], Unknown):
        return UNKNOWN
    if isinstance(args[0], Items):
        sequence = Items(list(args[0].items), "list", args[0].rest)
        holders.link(sequence, args[0])
        return sequence
    items = iterate(interpreter, args[0], node, most=16)
    return Items(items, "list", None if is_exact(args[0]) else join(items))


def as_dict(_i: Interpreter, args: Args, keywords: Keywords, _n: ast.AST) -> Value:
    """`dict(...)`."""
    mapping = (
        Dictionary(dict(args[0].items), args[0].rest) if args and isinstance(args[0], Dictionary) else Dictionary()
    )
    if args and isinstance(args[0], Items):
        for pair in args[0].items:
            if isinstance(pair, Items) and len(pair.items) == 2:
                set_item(mapping, pair.items[0], pair.items[1])
    if args:
        holders.link(mapping, args[0])
    mapping.items.update(keywords)
    return mapping


def as_mapped(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    """`map(f, ...)`, run at once."""
    if len(args) < 2:
        return UNKNOWN
    rows = zip(*(iterate(interpreter, arg, node, most=8) for arg in args[1:]), strict=False)
    result = [interpreter.call(args[0], list(row), {}, node) for row in rows]
    return Items(result, "list", None if is_exact(args[1]) else join(result))


def _sum(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    total: Value = args[1] if len(args) > 1 else Const(0)
    for item_value in iterate(interpreter, args[0], node, most=4, least=1) if args else []:
        total = interpreter.binary(ast.Add(), total, item_value, node)
    return total


def _isinstance(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    if len(args) != 2:
        return PLAIN
    kinds = args[1].items if isinstance(args[1], Items) else [args[1]]
    answers = [torch_model.is_instance(args[0], kind) for kind in kinds]
    if True in answers:
        return Const(True)
    return PLAIN if None in answers else Const(False)


def _getattr(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    if len(args) >= 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        found = interpreter.attribute(args[0], args[1].value, node)
        return found if not isinstance(found, Bound) or len(args) == 2 else join([found, args[2]])
    return UNKNOWN


def _hasattr(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    """Surely so where it is bound; what bases of torch have besides is not known."""
    holder, name = (args[0], args[1]) if len(args) == 2 else (UNKNOWN, UNKNOWN)
    if not isinstance(holder, Instance) or not isinstance(name, Const) or holder.cls.find("__getattr__"):
        return PLAIN
    if not isinstance(name.value, str):
        return PLAIN
    if name.value in holder.names or holder.cls.find(name.value) is not None:
        return Const(True)
    known = holder.cls.torch_base() is None and not has_unknown_base(holder.cls)
    return Const(False) if known and not name.value.startswith("__") else PLAIN


def _setattr(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        interpreter.set_attribute(args[0], args[1].value, args[2], node)
    return NONE


def _super(interpreter: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    frame = next((frame for frame in reversed(interpreter.frames) if frame.function and frame.function.owner), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    if frame is None or frame.function is None or frame.function.owner is None:
        return UNKNOWN
    node = frame.function.node
    first = node.args.args[0].arg if node.args.args else ""
    receiver = frame.scope.names.get(first)
    return Super(receiver, frame.function.owner) if receiver is not None else UNKNOWN


def _first(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    items = iterate(interpreter, args[0], node) if args else []
    return items[0] if items else UNKNOWN


def _same(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    return args[0] if args else UNKNOWN


def _reversed(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    if args and isinstance(args[0], Items):
        return Items(list(reversed(args[0].items)), "list", args[0].rest)
    return _as_list(interpreter, args, {}, node)


def _length(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    if args and isinstance(args[0], Tensor) and args[0].shape and args[0].shape[0] is not None:
        return Const(args[0].shape[0])
    if args and isinstance(args[0], Items) and args[0].rest is None:
        return Const(len(args[0].items))
    return _number_of_children(args[0].children) if args and isinstance(args[0], Layer) else PLAIN


def _number_of_children(children: dict[str, Value]) -> Value:
    """The number of modules in a container, if it is known, or if one branch has decided which of them are added."""
    added = [with_paths(child) for child in children.values() if any(map(torch_model.is_no_child, options(child)))]
    if not children or any(name.startswith("*") for name in children) or any(len(child) != 2 for child in added):
        return PLAIN
    ways = {tuple(path for _, path in sorted(child, key=_is_gone)) for child in added}
    if len(ways) > 1:
        return PLAIN
    every, fewer = Const(len(children)), Const(len(children) - len(added))
    return Choice((every, fewer), *ways) if ways else every


def _is_gone(option: tuple[Value, Path]) -> bool:
    return torch_model.is_no_child(option[0])


def _extreme(interpreter: Interpreter, args: Args, _k: dict[str, Value], node: ast.AST) -> Value:
    items = args if len(args) > 1 else iterate(interpreter, args[0], node) if args else []
    return PLAIN if all(isinstance(item, (Plain, Const)) for item in items) else join(items)


def _any(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    known = _truths(args)
    return Const(True) if True in known else PLAIN if None in known else Const(False)


def _all(_i: Interpreter, args: Args, _k: dict[str, Value], _n: ast.AST) -> Value:
    known = _truths(args)
    return Const(False) if False in known else PLAIN if None in known else Const(True)


def _truths(args: Args) -> list[bool | None]:
    if len(args) != 1 or not isinstance(args[0], Items):
        return [None]
    return [*map(truth, args[0].items), *([None] if args[0].rest is not None else [])]


def _of_a_number(function: Callable[[Any], Any]) -> Callable[..., Value]:
    """`bool(i % 2)`: known if the number is."""

    def call(_i: Interpreter, args: Args, keywords: Keywords, _n: ast.AST) -> Value:
        number = args[0].value if len(args) == 1 and not keywords and isinstance(args[0], Const) else None
        is_finite = isinstance(number, int) or (isinstance(number, float) and math.isfinite(number))
        return Const(function(number)) if is_finite else PLAIN

    return call


CALLS: dict[str, Any] = {
    "range": _range, "zip": _zip, "enumerate": _enumerate, "list": _as_list, "tuple": _as_list, "set": _as_list,
    "sorted": _as_list, "dict": as_dict, "map": as_mapped, "sum": _sum, "isinstance": _isinstance, "getattr": _getattr,
    "hasattr": _hasattr, "setattr": _setattr, "super": _super, "next": _first, "iter": _same, "reversed": _reversed,
    "bool": _of_a_number(bool), "int": _of_a_number(int), "abs": _of_a_number(abs), "len": _length, "any": _any,
    "all": _all, "max": _extreme, "min": _extreme, "slice": _slice,
    "filter": lambda i, a, k, n: _as_list(i, a[1:], k, n),
}  # fmt: skip

PLAIN_BUILTINS = {
    "float", "str", "print", "open", "callable", "type", "id", "hash", "repr", "round",
    "format", "input", "ord", "chr", "bytes", "pow", "divmod", "issubclass", "vars", "dir",
}  # fmt: skip
