"""Lists, tuples, dicts: their items, their methods, and going through them."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from outplace.source import holders, records
from outplace.source.tape import Path
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    ArrayPart,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Done,
    Function,
    GradMode,
    Instance,
    Items,
    Layer,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
    join,
    join_arms,
    with_paths,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

from outplace.source.python_model.values import as_key, hashable, of_key


def item(holder: Value, key: Value) -> Value:
    """`holder[key]` without tensors."""
    if isinstance(holder, (Items, Dictionary)) and holder.latest is not None and holder.latest[0] is key:
        return holder.latest[1]
    if isinstance(holder, Items):
        return _sequence_item(holder, key)
    if isinstance(holder, Dictionary):
        key = as_key(key)
        if isinstance(key, Const) and hashable(key.value) and key.value in holder.items:
            return holder.items[key.value]
        if isinstance(key, Const) and holder.rest is not None:
            return holder.rest
        everything = [*holder.items.values(), *([holder.rest] if holder.rest is not None else [])]
        return join(everything) if everything and not isinstance(key, Const) else UNKNOWN
    if isinstance(holder, Layer):
        return _layer_item(holder, key)
    if isinstance(holder, Plain):
        return ArrayPart(holder, key)
    if isinstance(holder, Const):
        return PLAIN
    return UNKNOWN


def _sequence_item(holder: Items, key: Value) -> Value:
    if isinstance(key, Const) and isinstance(key.value, int) and not isinstance(key.value, bool):
        if -len(holder.items) <= key.value < len(holder.items) and (holder.rest is None or key.value >= 0):
            return holder.items[key.value]
        return holder.any_item() if holder.rest is not None else UNKNOWN
    if isinstance(key, Const) and isinstance(key.value, slice):
        try:
            return _linked(Items(holder.items[key.value], holder.kind, holder.rest), holder)
        except (TypeError, ValueError):
            return UNKNOWN
    if isinstance(key, Bound) and key.function == "slice":
        return _linked(Items([], holder.kind, holder.any_item()), holder)
    return holder.any_item()


def _linked(made: Items | Dictionary, original: Items | Dictionary) -> Value:
    holders.link(made, original)
    return made


def _layer_item(holder: Layer, key: Value) -> Value:
    children = list(holder.children.values())
    if isinstance(key, Const) and isinstance(key.value, str):
        return holder.children.get(key.value, UNKNOWN)
    if isinstance(key, Const) and isinstance(key.value, int):
        return children[key.value] if -len(children) <= key.value < len(children) else join(children)
    if isinstance(key, Const) and isinstance(key.value, slice):
        part = Layer(holder.kind, holder.options)
        names = list(holder.children)[key.value]
        part.children = {name: holder.children[name] for name in names}
        return part
    return join(children) if children else UNKNOWN


def set_item(holder: Value, key: Value, value: Value) -> None:
    """`holder[key] = value` without tensors."""
    if isinstance(holder, (Items, Dictionary)) and holder.stale:
        holders.note_stored(holder, value)
    if isinstance(holder, Dictionary):
        known = as_key(key)
        if isinstance(known, Const) and hashable(known.value):
            holder.items[known.value] = value
        else:
            _set_somewhere(holder, key, value)
    elif isinstance(holder, Items):
        if (
            isinstance(key, Const)
            and isinstance(key.value, int)
            and -len(holder.items) <= key.value < len(holder.items)
        ):
            holder.items[key.value] = value
        elif _is_slice(key):
            _set_slice(holder, key, value)
        else:
            _set_somewhere(holder, key, value)
    elif isinstance(holder, Layer) and isinstance(key, Const):
        holder.children[str(key.value)] = value


def delete_item(holder: Value, key: Value) -> None:
    """`del holder[key]`, `del holder[:]`."""
    key = as_key(key)
    if isinstance(holder, Dictionary) and isinstance(key, Const) and hashable(key.value):
        holder.items.pop(key.value, None)
    elif isinstance(holder, Items) and _is_slice(key):
        _set_slice(holder, key, Items([]))
    elif isinstance(holder, Items) and isinstance(key, Const) and holder.rest is None:
        if isinstance(key.value, int) and -len(holder.items) <= key.value < len(holder.items):
            del holder.items[key.value]
    elif isinstance(holder, Items):
        _forget(holder)


def _is_slice(key: Value) -> bool:
    return (isinstance(key, Const) and isinstance(key.value, slice)) or (
        isinstance(key, Bound) and key.function == "slice"
    )


def _set_slice(holder: Items, key: Value, value: Value) -> None:
    part = key.value if isinstance(key, Const) else None
    if part == slice(None) and isinstance(value, Items):
        holder.items[:], holder.rest, holder.latest = value.items, value.rest, None
        return
    try:
        if part is None or holder.rest is not None or not isinstance(value, Items) or value.rest is not None:
            _forget(holder)
        else:
            holder.items[part] = value.items
    except (TypeError, ValueError):
        _forget(holder)


def _forget(holder: Items) -> None:
    """What it holds is not known any more."""
    holder.items[:], holder.rest, holder.latest = [], UNKNOWN, None


def _set_somewhere(holder: Items | Dictionary, key: Value, value: Value) -> None:
    holder.rest = value if holder.rest is None else join([holder.rest, value])
    holder.latest = (key, value) if key is not UNKNOWN and key is not PLAIN else None


_MOST_ITEMS = 1_000
"""A list that is added to itself in a loop grows without end."""


def extend(holder: Items, value: Value) -> None:
    """Adds all items of another container."""
    if isinstance(value, Items) and len(holder.items) + len(value.items) <= _MOST_ITEMS:
        holder.items.extend(value.items)
        if value.rest is not None:
            holder.rest = value.rest if holder.rest is None else join([holder.rest, value.rest])
    else:
        holder.rest = UNKNOWN


def spread(value: Value) -> list[Value]:
    """The items of `*value`."""
    if isinstance(value, Items):
        return [*value.items, *([value.rest] if value.rest is not None and not value.items else [])]
    if isinstance(value, Layer):
        return list(value.children.values())
    if isinstance(value, Dictionary):
        return [of_key(key) for key in value.items]
    return [UNKNOWN]


def unpacked(interpreter: Interpreter, value: Value, count: int, node: ast.AST) -> list[Value]:
    """The values that `a, b, c = value` binds."""
    if isinstance(value, Items) and value.items:
        rest = value.rest if value.rest is not None else UNKNOWN
        return [*value.items, *[rest] * (count - len(value.items))]
    if isinstance(value, Items) and value.rest is not None:
        return [value.rest] * count
    if isinstance(value, Instance) and value.cls.fields is not None:
        return [value.names.get(field, UNKNOWN) for field in value.cls.fields]
    if isinstance(value, Tensor) and value.known:
        from outplace.source import torch_model

        views = torch_model.run_op(interpreter, "unbind", [value], {}, node)
        return unpacked(interpreter, views, count, node) if isinstance(views, Items) else [views] * count
    if isinstance(value, (Const, Plain)):
        return [PLAIN] * count
    return [UNKNOWN] * count


def is_exact(value: Value) -> bool:
    """Is every item of it known?"""
    if isinstance(value, Items):
        return value.rest is None
    return isinstance(value, (Dictionary, Layer)) or (isinstance(value, Const) and isinstance(value.value, str))


def iterate(interpreter: Interpreter, value: Value, node: ast.AST, most: int = 8, least: int = 2) -> list[Value]:
    """What a loop variable stands for, round by round; `least` rounds where their number is not known."""
    if isinstance(value, Items):
        if value.stale:
            holders.check_whole(interpreter, value)
        items = value.items[:most] if len(value.items) <= most else [*value.items[: most - 1], value.items[-1]]
        if value.rest is not None and len(items) < least:
            items = [*items, *(_another(value.rest) for _ in range(least - len(items)))]
        return items
    if isinstance(value, Const) and isinstance(value.value, str):
        return [Const(letter) for letter in value.value[:most]]
    if isinstance(value, Dictionary):
        keys: list[Value] = [of_key(key) for key in list(value.items)[:most]]
        return keys or ([UNKNOWN] * least if value.rest is not None else [])
    if isinstance(value, Layer):
        if value.kind.endswith("Dict"):
            return [Const(name) for name in list(value.children)[:most]]
        return list(value.children.values())[:most]
    if isinstance(value, Tensor):
        from outplace.source import torch_model

        views = torch_model.run_op(interpreter, "unbind", [value], {}, node)
        rounds = iterate(interpreter, views, node, least, least) if isinstance(views, Items) else [views] * least
        for view in rounds if not value.known else ():
            if isinstance(view, Tensor):  # what is no tensor may be a list of them
                view.known = False
        return rounds
    if isinstance(value, Instance):
        return _iterate_instance(interpreter, value, node, most, least)
    if isinstance(value, Choice):
        columns = [(iterate(interpreter, option, node, most, least), path)
                   for option, path in with_paths(value) if not is_none(option)]  # fmt: skip
        return [_at(columns, place) for place in range(max((len(column) for column, _ in columns), default=0))]
    return [Plain() if isinstance(value, (Plain, Const)) else Unknown() for _ in range(least)]


def _iterate_instance(interpreter: Interpreter, value: Instance, node: ast.AST, most: int, least: int) -> list[Value]:
    own, following = value.cls.find("__iter__"), value.cls.find("__next__")
    made = interpreter.call_function(own, [value], {}, node) if isinstance(own, Function) else value
    if made is not value:
        return iterate(interpreter, made, node, most, least)
    if isinstance(following, Function):
        return [interpreter.call_function(following, [value], {}, node) for _ in range(least)]
    children = _module_children(value)
    return children[:most] if children else [UNKNOWN] * least


def _at(columns: list[tuple[list[Value], Path]], place: int) -> Value:
    """What stands at a place of one of several containers."""
    there = [(column[place], path) for column, path in columns if place < len(column)]
    made = join_arms([item for item, _ in there], [path for _, path in there])
    return Unknown() if made is UNKNOWN else made


def _another(value: Value) -> Value:
    """A further item like this one, and not the same object. (Leaves stay: their flags are set through any of them.)"""
    if isinstance(value, Tensor) and not value.leaf:
        other = copy.copy(value)
        other.anchor = object()  # and not the same memory
        return other
    if isinstance(value, Items) and value.kind == "tuple":
        return Items([_another(item) for item in value.items], "tuple", value.rest)
    return value


def _module_children(value: Instance) -> list[Value]:
    from outplace.source import torch_model

    return list(torch_model.children_of(value).values())


def method(
    interpreter: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """A method of a Python value; None where nothing is known of it."""
    if isinstance(receiver, Items):
        if name in ("append", "appendleft") and args:
            from outplace.source import torch_model

            holders.note_stored(receiver, args[0])

            appended = args[0].items if isinstance(args[0], Items) else args[:1]
            for tensor in {id(item): item for item in appended if isinstance(item, Tensor)}.values():
                torch_model.check_appended(interpreter, receiver, tensor)
            for item in appended:
                if isinstance(item, Plain) and item.storage is not None and item.whole:
                    torch_model.check_appended_array(interpreter, receiver, item.storage)
        if name == "extend" and args and isinstance(args[0], Tensor):
            rows = iterate(interpreter, args[0], node, most=16)
            args = [Items(rows, rest=None if is_exact(args[0]) else join(rows))]
        return _list_method(receiver, name, args)
    if isinstance(receiver, Dictionary):
        found = _dict_method(receiver, name, args)
        if receiver.stale and name in ("items", "values"):
            holders.check_whole(interpreter, receiver)
        elif receiver.stale:
            holders.check_item(interpreter, receiver, found)
        return found
    if isinstance(receiver, (Plain, Const)):
        if name in ("fill", "sort", "put", "partition", "resize"):
            from outplace.source import torch_model

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


def _list_method(holder: Items, name: str, args: list[Value]) -> Value:
    if name in ("append", "add", "appendleft") and args:
        if len(holder.items) < 64:
            holder.items.append(args[0])
        return NONE
    if name == "extend" and args:
        extend(holder, args[0])
        return NONE
    if name == "insert" and len(args) > 1:
        holder.items.insert(0, args[1])
        return NONE
    if name in ("pop", "popleft"):
        place = args[0] if args else Const(0 if name == "popleft" else -1)
        if not isinstance(place, Const):
            return holder.any_item()
        if isinstance(place.value, int) and -len(holder.items) <= place.value < len(holder.items):
            return holder.items.pop(place.value)
        return holder.rest if holder.rest is not None else UNKNOWN
    if name == "clear":
        holder.items[:], holder.rest, holder.latest = [], None, None
        return NONE
    if name == "copy":
        return _linked(Items(list(holder.items), holder.kind, holder.rest), holder)
    return PLAIN if name in ("index", "count", "sort", "reverse") else UNKNOWN


def _dict_method(holder: Dictionary, name: str, args: list[Value]) -> Value:
    everything = [*holder.items.values(), *([holder.rest] if holder.rest is not None else [])]
    if name == "items":
        pairs: list[Value] = [Items([of_key(key), value], "tuple") for key, value in holder.items.items()]
        made = Items(pairs, rest=Items([UNKNOWN, holder.rest], "tuple") if holder.rest is not None else None)
        holders.link_pairs(made, holder)
        return made
    if name == "values":
        return _linked(Items(list(holder.items.values()), rest=holder.rest), holder)
    if name == "keys":
        return Items([of_key(key) for key in holder.items], rest=UNKNOWN if holder.rest is not None else None)
    if name in ("get", "pop", "setdefault") and args:
        default, key = args[1] if len(args) > 1 else NONE, as_key(args[0])
        if isinstance(key, Const) and hashable(key.value):
            if key.value in holder.items:
                found = holder.items[key.value]
                if name == "pop":
                    del holder.items[key.value]
                return found
            if name == "setdefault":
                holder.items[key.value] = default
            return default if holder.rest is None else join([holder.rest, default])
        return join([*everything, default])
    if name == "update" and args and isinstance(args[0], Dictionary):
        holder.items.update(args[0].items)
        return NONE
    if name == "clear":
        holder.items.clear()
        holder.rest = holder.latest = None
        return NONE
    if name == "copy":
        return _linked(Dictionary(dict(holder.items), holder.rest), holder)
    return UNKNOWN
