"""What lists, tuples, dicts and layers hold: keys, items and truth, without tensors and without the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outplace.source import holders
from outplace.source.graph import Path
from outplace.source.joins import any_item, join, join_arms, with_paths
from outplace.source.values import (
    MOST_INSIDE,
    MOST_ITEMS,
    PLAIN,
    UNKNOWN,
    ArrayPart,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Layer,
    Optimizer,
    Plain,
    Torch,
    Unknown,
    Value,
    is_none,
)

_KEYS = (str, int, float, bool, bytes, type(None))


def hashable(value: Any) -> bool:
    """Can it be a key?"""
    return isinstance(value, _KEYS) or (isinstance(value, tuple) and all(map(hashable, value)))


def as_key(value: Value) -> Value:
    """A tuple of constants (`messages[i, j]`) as the constant that it is a key by."""
    if isinstance(value, Items) and value.kind == "tuple" and value.items and value.rest is None:
        parts = [as_key(item) for item in value.items]
        if all(isinstance(part, Const) and hashable(part.value) for part in parts):
            return Const(tuple(part.value for part in parts if isinstance(part, Const)))
    return value


def of_key(key: Any) -> Value:
    """A key as a loop over the dict hands it out."""
    return Items([of_key(part) for part in key], "tuple") if isinstance(key, tuple) else Const(key)


def truth(value: Value) -> bool | None:
    """Is it true? None where that cannot be known."""
    if isinstance(value, Const):
        return bool(value.value) if not isinstance(value.value, slice) else True
    if isinstance(value, Items):
        return True if value.items else None if value.rest is not None else False
    if isinstance(value, Dictionary):
        return True if value.items else None if value.rest is not None else False
    if isinstance(value, (Function, Class, Layer, Instance, Torch, Optimizer)):
        return True
    if isinstance(value, Choice):
        known = {truth(option) for option in value.options}
        return known.pop() if len(known) == 1 else None
    return None


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
        return any_item(holder) if holder.rest is not None else UNKNOWN
    if isinstance(key, Const) and isinstance(key.value, slice):
        try:
            return linked(Items(holder.items[key.value], holder.kind, holder.rest), holder)
        except (TypeError, ValueError):
            return UNKNOWN
    if isinstance(key, Bound) and key.function == "slice":
        return linked(Items([], holder.kind, any_item(holder)), holder)
    return any_item(holder)


def linked(made: Items | Dictionary, original: Items | Dictionary) -> Value:
    """A copy of a container, which `holders` knows as one."""
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


def bounded(value: Value) -> Value:
    """The value, or unknown if it is a container of containers with too much in it.

    `l = [l, l]`, forty times, is small in memory. Whoever looks at each item does not come to an end.
    """
    if not isinstance(value, _CONTAINERS) or not any(isinstance(item, _CONTAINERS) for item in _held(value)):
        return value
    count, around = 0, set[int]()
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, int):  # all in this container has been looked at
            around.remove(one)
            continue
        if id(one) in around:  # it holds itself
            continue
        held = _held(one)
        count += 1 + len(held)
        if count > MOST_INSIDE:
            return UNKNOWN
        around.add(id(one))
        stack.append(id(one))
        stack += [item for item in held if isinstance(item, _CONTAINERS)]
    return value


def _held(one: Items | Dictionary | Choice) -> Sequence[Value]:
    if isinstance(one, Choice):
        return one.options
    return [*(one.items.values() if isinstance(one, Dictionary) else one.items), *([one.rest] if one.rest else [])]


_CONTAINERS = (Items, Dictionary, Choice)


def set_item(holder: Value, key: Value, value: Value) -> None:
    """`holder[key] = value` without tensors."""
    value = bounded(value)
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
            if len(holder.items) > MOST_ITEMS:
                _forget(holder)
    except (TypeError, ValueError):
        _forget(holder)


def _forget(holder: Items) -> None:
    """What it holds is not known any more."""
    holder.items[:], holder.rest, holder.latest = [], UNKNOWN, None


def _set_somewhere(holder: Items | Dictionary, key: Value, value: Value) -> None:
    if isinstance(holder, Items):  # a place that waits to be filled may be the one: `found = [None] * count`
        holder.items[:] = [join([item, value]) if isinstance(item, Const) else item for item in holder.items]
    holder.rest = value if holder.rest is None else join([holder.rest, value])
    holder.latest = (key, value) if key is not UNKNOWN and key is not PLAIN else None


def extend(holder: Items, value: Value) -> None:
    """Adds all items of another container."""
    if isinstance(value, Items) and len(holder.items) + len(value.items) <= MOST_ITEMS:
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
    if isinstance(value, Choice):
        columns = [(spread(option), path) for option, path in with_paths(value) if not is_none(option)]
        return [item_at(columns, place) for place in range(max((len(column) for column, _ in columns), default=0))]
    return [UNKNOWN]


def item_at(columns: list[tuple[list[Value], Path]], place: int) -> Value:
    """What stands at a place of one of several containers."""
    there = [(column[place], path) for column, path in columns if place < len(column)]
    result = join_arms([item for item, _ in there], [path for _, path in there])
    return Unknown() if result is UNKNOWN else result


def is_exact(value: Value) -> bool:
    """Is every item of it known?"""
    if isinstance(value, Items):
        return value.rest is None
    return isinstance(value, (Dictionary, Layer)) or (isinstance(value, Const) and isinstance(value.value, str))
