"""Lists, tuples and dicts: their items, their methods, and loops over them."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from outplace.knowledge.by_hand import ARRAY_WRITING_METHODS
from outplace.source import holders, hypotheses, records, torch_model, unseen
from outplace.source.contents import as_key, bounded, extend, hashable, is_exact, item_at, linked, of_key
from outplace.source.joins import any_item, join, with_paths
from outplace.source.values import (
    MOST_ITEMS,
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Choice,
    Class,
    Const,
    Dictionary,
    Done,
    Function,
    GradMode,
    Instance,
    Items,
    Keywords,
    Layer,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def unpacked(interpreter: Interpreter, value: Value, count: int, node: ast.AST) -> list[Value]:
    """The values that `a, b, c = value` binds."""
    if isinstance(value, Items) and value.items:
        rest = value.rest if value.rest is not None else UNKNOWN
        return [*value.items, *[rest] * (count - len(value.items))]
    if isinstance(value, Items) and value.rest is not None:
        return _of_rest(interpreter, value.rest, count)
    if isinstance(value, Instance) and value.cls.fields is not None:
        return [value.names.get(field, UNKNOWN) for field in value.cls.fields]
    if isinstance(value, Layer) and value.children:
        return [*value.children.values(), *[UNKNOWN] * (count - len(value.children))]
    if isinstance(value, Tensor) and value.known:
        views = torch_model.run_op(interpreter, "unbind", [value], {}, node)
        return unpacked(interpreter, views, count, node) if isinstance(views, Items) else [views] * count
    if isinstance(value, Tensor) and interpreter.assumes:
        return [hypotheses.part_of(interpreter, value) for _ in range(count)]
    if isinstance(value, (Const, Plain)):
        return [PLAIN] * count
    return [UNKNOWN] * count


def _of_rest(interpreter: Interpreter, rest: Value, count: int) -> list[Value]:
    if isinstance(rest, Tensor) and interpreter.assumes:
        return [hypotheses.part_of(interpreter, rest) for _ in range(count)]
    return [rest] * count


def iterate(interpreter: Interpreter, value: Value, node: ast.AST, most: int = 8, least: int = 2) -> list[Value]:
    """What a loop variable stands for, round by round; `least` rounds where their number is not known."""
    if isinstance(value, Items):
        return _iterate_items(interpreter, value, most, least)
    if isinstance(value, Const) and isinstance(value.value, str):
        return [Const(letter) for letter in value.value[:most]]
    if isinstance(value, Dictionary):
        keys: list[Value] = [of_key(key) for key in list(value.items)[:most]]
        return keys or ([UNKNOWN] * least if value.rest is not None else [])
    if isinstance(value, Layer):
        return _iterate_layer(interpreter, value, most)
    if isinstance(value, unseen.Unseen):
        return [value.part("[]")] * least
    if isinstance(value, Tensor):
        return _iterate_tensor(interpreter, value, node, least)
    if isinstance(value, Instance):
        return _iterate_instance(interpreter, value, node, most, least)
    if isinstance(value, Choice):
        return _iterate_choice(interpreter, value, node, most, least)
    return [Plain() if isinstance(value, (Plain, Const)) else Unknown() for _ in range(least)]


def _iterate_choice(interpreter: Interpreter, value: Choice, node: ast.AST, most: int, least: int) -> list[Value]:
    columns = [
        (iterate(interpreter, option, node, most, least), path)
        for option, path in with_paths(value)
        if not is_none(option)
    ]
    return [item_at(columns, place) for place in range(max((len(column) for column, _ in columns), default=0))]


def _iterate_items(interpreter: Interpreter, value: Items, most: int, least: int) -> list[Value]:
    if value.stale:
        holders.check_whole(interpreter, value)
    items = value.items[:most] if len(value.items) <= most else [*value.items[: most - 1], value.items[-1]]
    if value.rest is not None and len(items) < least:
        items = [*items, *(another(value.rest) for _ in range(least - len(items)))]
    return items


def _iterate_layer(interpreter: Interpreter, value: Layer, most: int) -> list[Value]:
    if value.kind.endswith("Dict"):
        return [Const(name) for name in list(value.children)[:most]]
    children = list(value.children.values())[:most]
    if not interpreter.assumes:
        return children
    return [unseen.inside(interpreter, value, child) for child in children]


def _iterate_tensor(interpreter: Interpreter, value: Tensor, node: ast.AST, least: int) -> list[Value]:
    if interpreter.assumes and not value.known:
        return [hypotheses.part_of(interpreter, value) for _ in range(least)]
    views = torch_model.run_op(interpreter, "unbind", [value], {}, node)
    rounds = iterate(interpreter, views, node, least, least) if isinstance(views, Items) else [views] * least
    for view in rounds if not value.known else ():
        if isinstance(view, Tensor):  # what is no tensor may be a list of them
            view.known = False
    return rounds


def _iterate_instance(interpreter: Interpreter, value: Instance, node: ast.AST, most: int, least: int) -> list[Value]:
    own, following = value.cls.find("__iter__"), value.cls.find("__next__")
    result = interpreter.call_function(own, [value], {}, node) if isinstance(own, Function) else value
    if result is not value:
        return iterate(interpreter, result, node, most, least)
    if isinstance(following, Function):
        return [interpreter.call_function(following, [value], {}, node) for _ in range(least)]
    children = _module_children(value)
    return children[:most] if children else [UNKNOWN] * least


def another(value: Value) -> Value:
    """A further item like this one, and not the same object. (Leaves stay: their flags are set through any of them.)"""
    if isinstance(value, Tensor) and not value.leaf:
        other = copy.copy(value)
        other.anchor = object()  # and not the same memory
        return other
    if isinstance(value, Items) and value.kind == "tuple":
        return Items([another(item) for item in value.items], "tuple", value.rest)
    return value


def _module_children(value: Instance) -> list[Value]:
    return list(torch_model.children_of(value).values())


def method(
    interpreter: Interpreter, receiver: Value, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """A method of a Python value; None where nothing is known of it."""
    if isinstance(receiver, Items):
        if name in ("append", "appendleft") and args:
            _note_appended(interpreter, receiver, args[0])
        if name == "extend" and args and isinstance(args[0], Tensor):
            rows = iterate(interpreter, args[0], node, most=16)
            args = [Items(rows, rest=None if is_exact(args[0]) else join(rows))]
        return _list_method(receiver, name, args)
    if isinstance(receiver, Dictionary):
        found = _dict_method(receiver, name, args, keywords)
        if receiver.stale:
            _check_stale(interpreter, receiver, name, found)
        return found
    if isinstance(receiver, (Plain, Const)):
        if name in ARRAY_WRITING_METHODS:
            torch_model.forget_array(interpreter, receiver)
        return Plain()  # it may be an array, which a tensor is made of later
    if isinstance(receiver, Class) and name == "__init__":
        return NONE
    if isinstance(receiver, Instance):
        if name == "enter_context" and args and isinstance(args[0], GradMode):
            interpreter.grad = args[0].mode  # until the `with` statement of the stack ends
        return records.record_method(receiver, name, args, keywords)
    if isinstance(receiver, Done):
        return receiver.result if name in ("result", "get", "wait") else PLAIN
    return None


def _check_stale(interpreter: Interpreter, holder: Dictionary, name: str, found: Value) -> None:
    if name in ("items", "values"):
        holders.check_whole(interpreter, holder)
    else:
        holders.check_item(interpreter, holder, found)


def _note_appended(interpreter: Interpreter, holder: Items, value: Value) -> None:
    holders.note_stored(holder, value)
    appended = value.items if isinstance(value, Items) else [value]
    for tensor in {id(item): item for item in appended if isinstance(item, Tensor)}.values():
        torch_model.check_appended(interpreter, holder, tensor)
    for item in appended:
        if isinstance(item, Plain) and item.storage is not None and item.whole:
            torch_model.check_appended_array(interpreter, holder, item.storage)


def _list_method(holder: Items, name: str, args: Args) -> Value:
    if name in ("append", "add", "appendleft") and args:
        if len(holder.items) < 64:
            holder.items.append(bounded(args[0]))
        return NONE
    if name == "extend" and args:
        extend(holder, args[0])
        return NONE
    if name == "insert" and len(args) > 1:
        if len(holder.items) < MOST_ITEMS:
            holder.items.insert(0, bounded(args[1]))
        return NONE
    if name in ("pop", "popleft"):
        place = args[0] if args else Const(0 if name == "popleft" else -1)
        if not isinstance(place, Const):
            return any_item(holder)
        if isinstance(place.value, int) and -len(holder.items) <= place.value < len(holder.items):
            return holder.items.pop(place.value)
        return holder.rest if holder.rest is not None else UNKNOWN
    if name == "clear":
        holder.items[:], holder.rest, holder.latest = [], None, None
        return NONE
    if name == "copy":
        return linked(Items(list(holder.items), holder.kind, holder.rest), holder)
    return PLAIN if name in ("index", "count", "sort", "reverse") else UNKNOWN


def _dict_method(holder: Dictionary, name: str, args: Args, keywords: Keywords) -> Value:
    if name == "items":
        pairs: list[Value] = [Items([of_key(key), value], "tuple") for key, value in holder.items.items()]
        sequence = Items(pairs, rest=Items([UNKNOWN, holder.rest], "tuple") if holder.rest is not None else None)
        holders.link_pairs(sequence, holder)
        return sequence
    if name == "values":
        return linked(Items(list(holder.items.values()), rest=holder.rest), holder)
    if name == "keys":
        return Items([of_key(key) for key in holder.items], rest=UNKNOWN if holder.rest is not None else None)
    if name in ("get", "pop", "setdefault") and args:
        return _look_up(holder, name, as_key(args[0]), args[1] if len(args) > 1 else NONE)
    if name == "update" and (not args or isinstance(args[0], Dictionary)):
        holder.items.update({**(args[0].items if args and isinstance(args[0], Dictionary) else {}), **keywords})
        return NONE
    if name == "clear":
        holder.items.clear()
        holder.rest = holder.latest = None
        return NONE
    if name == "copy":
        return linked(Dictionary(dict(holder.items), holder.rest), holder)
    return UNKNOWN


def _look_up(holder: Dictionary, name: str, key: Value, default: Value) -> Value:
    """`get`, `pop` and `setdefault` of a dict."""
    if not (isinstance(key, Const) and hashable(key.value)):
        rest = [holder.rest] if holder.rest is not None else []
        return join([*holder.items.values(), *rest, default])
    if key.value in holder.items:
        return holder.items.pop(key.value) if name == "pop" else holder.items[key.value]
    if name == "setdefault":
        holder.items[key.value] = bounded(default)
    return default if holder.rest is None else join([holder.rest, default])
