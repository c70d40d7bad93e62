"""What Python itself does with abstract values: builtins, containers, iteration, comparison, truth."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from outplace.source import records
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Done,
    Function,
    Instance,
    Items,
    Layer,
    Optimizer,
    Outside,
    Plain,
    Super,
    Tensor,
    Torch,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_BUILTINS = {name: Outside(f"builtins.{name}") for name in dir(__import__("builtins"))}

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip

# Libraries whose results are surely no tensors.
_NO_TENSORS = {
    "numpy", "math", "random", "os", "sys", "time", "json", "logging", "argparse", "re", "pathlib", "datetime",
    "pandas", "matplotlib", "scipy", "sklearn", "csv", "pickle", "shutil", "string", "io", "gc", "warnings",
    "cv2", "PIL",
}  # fmt: skip


def builtin(name: str) -> Value:
    """A name that no scope binds."""
    return _BUILTINS.get(name, UNKNOWN)


def hashable(value: Any) -> bool:
    """Can it be a key?"""
    return isinstance(value, str | int | float | bool | bytes | type(None))


def truth(value: Value) -> bool | None:
    """Is it true? None where that cannot be known."""
    if isinstance(value, Const):
        return bool(value.value) if not isinstance(value.value, slice) else True
    if isinstance(value, Items):
        return True if value.items else None if value.rest is not None else False
    if isinstance(value, Dictionary):
        return True if value.items else None if value.rest is not None else False
    if isinstance(value, Function | Class | Layer | Instance | Torch | Optimizer):
        return True
    if isinstance(value, Choice):
        known = {truth(option) for option in value.options}
        return known.pop() if len(known) == 1 else None
    return None


def binary(op: ast.operator, left: Value, right: Value) -> Value:
    """An operation without tensors."""
    if isinstance(left, Const) and isinstance(right, Const):
        return _constant_binary(op, left.value, right.value)
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(op, ast.Add):
        rests = [side.rest for side in (left, right) if side.rest is not None]
        return Items([*left.items, *right.items], left.kind, join(rests) if rests else None)
    if isinstance(op, ast.Mult) and (isinstance(left, Items) or isinstance(right, Items)):
        items, times = (left, right) if isinstance(left, Items) else (right, left)
        assert isinstance(items, Items)
        count = times.value if isinstance(times, Const) and isinstance(times.value, int) else 2
        copies = items.items * max(0, min(count, 4))
        if count > 1 and len(items.items) == 1 and isinstance(items.items[0], Tensor):
            items.items[0].many = True
        return Items(copies, items.kind, items.rest or (items.any_item() if len(copies) > 0 else None))
    if isinstance(left, Plain | Const | Items) and isinstance(right, Plain | Const | Items):
        return PLAIN
    return UNKNOWN


def _constant_binary(op: ast.operator, left: Any, right: Any) -> Value:
    run = _OPERATORS.get(type(op))
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if run is None or not (numbers or (isinstance(left, str) and isinstance(right, str))):
        return PLAIN
    try:
        made = run(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return PLAIN
    too_large = (isinstance(made, int) and abs(made) > 1 << 62) or (isinstance(made, str) and len(made) > 1000)
    return PLAIN if too_large else Const(made)


def unary(op: ast.unaryop, value: Value) -> Value:
    """`-x`, `~x`, `+x` without tensors."""
    if isinstance(value, Const) and isinstance(value.value, int | float):
        return Const(-value.value) if isinstance(op, ast.USub) else value if isinstance(op, ast.UAdd) else PLAIN
    return PLAIN if isinstance(value, Plain | Const) else UNKNOWN


def compare(interpreter: Interpreter, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right`."""
    if isinstance(op, ast.Is | ast.IsNot):
        return _identity(op, left, right)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        from outplace.source import torch_model

        if isinstance(op, ast.In | ast.NotIn):
            return PLAIN
        return torch_model.fresh(interpreter, requires_grad=False, dtype="bool")
    if isinstance(op, ast.In | ast.NotIn):
        return _contains(op, left, right)
    if isinstance(left, Const) and isinstance(right, Const) and type(op) in _COMPARISONS:
        try:
            return Const(bool(_COMPARISONS[type(op)](left.value, right.value)))
        except TypeError:
            return PLAIN
    return PLAIN if isinstance(left, Plain | Const) and isinstance(right, Plain | Const) else UNKNOWN


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    same: bool | None = None
    for one, other in ((left, right), (right, left)):
        could_be = isinstance(one, Unknown | Choice) or (isinstance(one, Tensor) and not one.known)
        if isinstance(other, Const) and other.value is None and not could_be:
            same = isinstance(one, Const) and one.value is None
    if isinstance(left, Const) and isinstance(right, Const) and same is None:
        same = left.value is right.value
    return PLAIN if same is None else Const(same == isinstance(op, ast.Is))


def _contains(op: ast.cmpop, left: Value, right: Value) -> Value:
    found: bool | None = None
    if isinstance(left, Const) and isinstance(right, Dictionary) and right.rest is None and hashable(left.value):
        found = left.value in right.items
    elif (
        isinstance(left, Const)
        and isinstance(right, Const)
        and isinstance(left.value, str)
        and isinstance(right.value, str)
    ):
        found = left.value in right.value
    elif isinstance(left, Const) and isinstance(right, Items) and right.rest is None:
        constants = [item.value for item in right.items if isinstance(item, Const)]
        found = left.value in constants if len(constants) == len(right.items) else None
    return PLAIN if found is None else Const(found == isinstance(op, ast.In))


# -- containers --------------------------------------------------------------------------------------------------------


def item(holder: Value, key: Value) -> Value:
    """`holder[key]` without tensors."""
    if isinstance(holder, Items):
        return _sequence_item(holder, key)
    if isinstance(holder, Dictionary):
        if isinstance(key, Const) and hashable(key.value) and key.value in holder.items:
            return holder.items[key.value]
        if isinstance(key, Const) and holder.rest is not None:
            return holder.rest
        everything = [*holder.items.values(), *([holder.rest] if holder.rest is not None else [])]
        return join(everything) if everything and not isinstance(key, Const) else UNKNOWN
    if isinstance(holder, Layer):
        return _layer_item(holder, key)
    if isinstance(holder, Plain):
        return Plain(holder.storage, whole=False)
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
            return Items(holder.items[key.value], holder.kind, holder.rest)
        except (TypeError, ValueError):
            return UNKNOWN
    if isinstance(key, Bound) and key.function == "slice":
        return Items([], holder.kind, holder.any_item())
    return holder.any_item()


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
    if isinstance(holder, Dictionary):
        if isinstance(key, Const) and hashable(key.value):
            holder.items[key.value] = value
        else:
            holder.rest = value if holder.rest is None else join([holder.rest, value])
    elif isinstance(holder, Items):
        if (
            isinstance(key, Const)
            and isinstance(key.value, int)
            and -len(holder.items) <= key.value < len(holder.items)
        ):
            holder.items[key.value] = value
        elif not (isinstance(key, Const) and isinstance(key.value, slice)):
            holder.rest = value if holder.rest is None else join([holder.rest, value])
    elif isinstance(holder, Layer) and isinstance(key, Const):
        holder.children[str(key.value)] = value


def extend(holder: Items, value: Value) -> None:
    """Adds all items of another container."""
    if isinstance(value, Items):
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
        return [Const(key) for key in value.items]
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
    if isinstance(value, Const | Plain):
        return [PLAIN] * count
    return [UNKNOWN] * count


def is_exact(value: Value) -> bool:
    """Is every item of it known?"""
    if isinstance(value, Items):
        return value.rest is None
    return isinstance(value, Dictionary | Layer)


def iterate(interpreter: Interpreter, value: Value, node: ast.AST, most: int = 8, least: int = 2) -> list[Value]:
    """What a loop variable stands for, round by round; `least` rounds where their number is not known."""
    if isinstance(value, Items):
        items = value.items[:most] if len(value.items) <= most else [*value.items[: most - 1], value.items[-1]]
        if value.rest is not None and len(items) < least:
            items = [*items, *[value.rest] * (least - len(items))]
        return items
    if isinstance(value, Dictionary):
        keys: list[Value] = [Const(key) for key in list(value.items)[:most]]
        return keys or ([UNKNOWN] * least if value.rest is not None else [])
    if isinstance(value, Layer):
        if value.kind.endswith("Dict"):
            return [Const(name) for name in list(value.children)[:most]]
        return list(value.children.values())[:most]
    if isinstance(value, Tensor):
        from outplace.source import torch_model

        views = torch_model.run_op(interpreter, "unbind", [value], {}, node)
        return iterate(interpreter, views, node, least, least) if isinstance(views, Items) else [views] * least
    if isinstance(value, Instance):
        children = _module_children(value)
        return children[:most] if children else [UNKNOWN] * least
    if isinstance(value, Choice):
        return [item for option in value.options for item in iterate(interpreter, option, node, 2)]
    return [PLAIN if isinstance(value, Plain | Const) else UNKNOWN] * least


def _module_children(value: Instance) -> list[Value]:
    from outplace.source import torch_model

    return list(torch_model.children_of(value).values())


# -- methods of containers ---------------------------------------------------------------------------------------------


def method(
    interpreter: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """A method of a Python value; None where nothing is known of it."""
    if isinstance(receiver, Items):
        if name in ("append", "appendleft") and args and isinstance(args[0], Tensor):
            from outplace.source import torch_model

            torch_model.check_appended(interpreter, receiver, args[0])
        return _list_method(receiver, name, args)
    if isinstance(receiver, Dictionary):
        return _dict_method(receiver, name, args)
    if isinstance(receiver, Plain | Const):
        return Plain()  # it may be an array, which a tensor is made of later
    if isinstance(receiver, Class) and name == "__init__":
        return NONE
    if isinstance(receiver, Instance):
        return records.parser_method(receiver, name, args, keywords)
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
        if holder.items:
            return holder.items.pop(0 if name == "popleft" else -1)
        return holder.rest if holder.rest is not None else UNKNOWN
    if name == "clear":
        holder.items.clear()
        return NONE
    if name == "copy":
        return Items(list(holder.items), holder.kind, holder.rest)
    return PLAIN if name in ("index", "count", "sort", "reverse") else UNKNOWN


def _dict_method(holder: Dictionary, name: str, args: list[Value]) -> Value:
    everything = [*holder.items.values(), *([holder.rest] if holder.rest is not None else [])]
    if name == "items":
        pairs: list[Value] = [Items([Const(key), value], "tuple") for key, value in holder.items.items()]
        return Items(pairs, rest=Items([UNKNOWN, holder.rest], "tuple") if holder.rest is not None else None)
    if name == "values":
        return Items(list(holder.items.values()), rest=holder.rest)
    if name == "keys":
        return Items([Const(key) for key in holder.items], rest=UNKNOWN if holder.rest is not None else None)
    if name in ("get", "pop", "setdefault") and args:
        default = args[1] if len(args) > 1 else NONE
        if isinstance(args[0], Const) and hashable(args[0].value):
            if args[0].value in holder.items:
                found = holder.items[args[0].value]
                if name == "pop":
                    del holder.items[args[0].value]
                return found
            if name == "setdefault":
                holder.items[args[0].value] = default
            return default if holder.rest is None else join([holder.rest, default])
        return join([*everything, default])
    if name == "update" and args and isinstance(args[0], Dictionary):
        holder.items.update(args[0].items)
        return NONE
    if name == "copy":
        return Dictionary(dict(holder.items), holder.rest)
    return UNKNOWN


# -- functions ---------------------------------------------------------------------------------------------------------


def call_outside(
    interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A call of a builtin or of another library's function."""
    library, _, function = name.partition(".")
    if name == "builtins.dict.fromkeys" and len(args) > 1:
        return _one_for_all(args[0], args[1])
    if library == "builtins":
        run = _CALLS.get(function)
        if run is not None:
            found = run(interpreter, args, keywords, node)
            return found if isinstance(found, Value) else UNKNOWN
        return PLAIN if function in _PLAIN_BUILTINS else UNKNOWN
    if library == "operator" and function in _IN_PLACE_OPERATORS and len(args) == 2:
        return _operator(interpreter, function, args, node)
    if library == "asyncio":
        return Items(list(args), "tuple") if function == "gather" else args[0] if args else NONE
    if name == "threading.Thread" and "target" in keywords:
        given = keywords.get("args")
        interpreter.call(keywords["target"], spread(given) if given is not None else [], {}, node)
        return PLAIN
    if library == "copy" and args:
        return (
            args[0] if not isinstance(args[0], Tensor) and function == "copy" else _deep_copy(interpreter, args[0], {})
        )
    if name == "functools.partial" and args:
        return _partial(args, keywords)
    if name == "functools.reduce" and len(args) > 1:
        return _reduce(interpreter, args, node)
    if name in ("concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool"):
        return Outside("pool")
    if name in ("pool.map", "pool.imap"):
        return _map(interpreter, args, keywords, node)
    if name in ("pool.submit", "pool.apply_async") and args:
        return Done(interpreter.call(args[0], args[1:], keywords, node))
    if name == "concurrent.futures.as_completed" and args:
        return args[0]
    if name in ("collections.deque", "collections.OrderedDict", "collections.defaultdict", "itertools.chain"):
        return _collection(interpreter, name, args, node)
    if name in ("itertools.count", "itertools.repeat", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange"):
        return args[0] if name.endswith("tqdm") and args else PLAIN
    if name in ("collections.namedtuple", "types.SimpleNamespace", "argparse.Namespace", "argparse.ArgumentParser"):
        return records.make(interpreter, name, args, keywords)
    if library == "numpy":
        return _numpy(interpreter, function.rpartition(".")[2], args, keywords, node)
    return PLAIN if library in _NO_TENSORS else UNKNOWN


_WRITES_ARRAY = {"at", "copyto", "fill_diagonal", "nan_to_num", "place", "put", "put_along_axis", "putmask", "shuffle"}


def _numpy(
    interpreter: Interpreter, function: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A function of numpy: it may write an array that shares its memory with a tensor."""
    from outplace.source import torch_model

    written = keywords.get("out", args[0] if args and function in _WRITES_ARRAY else None)
    if isinstance(written, Plain) and written.storage is not None:
        torch_model.numpy_write(interpreter, written.storage, node)
        return written
    return Plain(_shared_memory(args) if function in ("asarray", "reshape", "ravel", "squeeze") else None)


def _one_for_all(keys: Value, value: Value) -> Value:
    """`dict.fromkeys(keys, value)`."""
    names = spread(keys) if isinstance(keys, Items) else []
    if isinstance(value, Tensor):
        value.many = True
    return Dictionary({key.value: value for key in names if isinstance(key, Const)}, value)


_IN_PLACE_OPERATORS: dict[str, ast.operator] = {
    "iadd": ast.Add(), "isub": ast.Sub(), "imul": ast.Mult(), "itruediv": ast.Div(), "ipow": ast.Pow(),
}  # fmt: skip


def _operator(interpreter: Interpreter, function: str, args: list[Value], node: ast.AST) -> Value:
    """`operator.iadd(x, y)`: what `x += y` does."""
    from outplace.source import torch_model

    if isinstance(args[0], Tensor):
        names = {"iadd": "add_", "isub": "sub_", "imul": "mul_", "itruediv": "div_", "ipow": "pow_"}
        return torch_model.run_op(interpreter, names[function], args, {}, node, method=True)
    return interpreter.binary(_IN_PLACE_OPERATORS[function], args[0], args[1], node)


def _reduce(interpreter: Interpreter, args: list[Value], node: ast.AST) -> Value:
    items = iterate(interpreter, args[1], node, most=4)
    if len(args) > 2:
        items = [args[2], *items]
    total = items[0] if items else UNKNOWN
    for item_value in items[1:]:
        total = interpreter.call(args[0], [total, item_value], {}, node)
    return total


def _shared_memory(args: list[Value]) -> Any:
    return args[0].storage if args and isinstance(args[0], Plain | Tensor) else None


def _partial(args: list[Value], keywords: dict[str, Value]) -> Value:
    return Bound(args[0], args[1]) if len(args) == 2 and not keywords else args[0] if len(args) == 1 else UNKNOWN


def _collection(interpreter: Interpreter, name: str, args: list[Value], node: ast.AST) -> Value:
    if name == "collections.deque":
        return Items(list(args[0].items) if args and isinstance(args[0], Items) else [], "list")
    if name == "itertools.chain":
        made = Items([])
        for argument in args:
            extend(made, argument)
        return made
    return _as_dict(interpreter, args if name == "collections.OrderedDict" else [], {}, node)


def _deep_copy(interpreter: Interpreter, value: Value, seen: dict[int, Value]) -> Value:
    """A copy with memory of its own all the way down."""
    if id(value) in seen:
        return seen[id(value)]
    from outplace.source import torch_model

    if isinstance(value, Tensor):
        made: Value = torch_model.copied(interpreter, value)
    elif isinstance(value, Items):
        made = Items([_deep_copy(interpreter, item, seen) for item in value.items], value.kind, value.rest)
    elif isinstance(value, Dictionary):
        made = Dictionary({key: _deep_copy(interpreter, item, seen) for key, item in value.items.items()}, value.rest)
    elif isinstance(value, Instance):
        made = Instance(value.cls)
        seen[id(value)] = made
        made.names.update({name: _deep_copy(interpreter, item, seen) for name, item in value.names.items()})
    elif isinstance(value, Layer):
        made = Layer(value.kind, value.options)
        made.training, made.sizes = value.training, value.sizes
        made.state = {name: torch_model.copied(interpreter, item) for name, item in value.state.items()}
        made.children = {name: _deep_copy(interpreter, item, seen) for name, item in value.children.items()}
    else:
        made = value
    seen[id(value)] = made
    return made


_MOST_NUMBERS = 4
"""Longer ranges are not gone through one by one."""


def _range(_i: Interpreter, args: list[Value], _k: dict[str, Value], _n: ast.AST) -> Value:
    ends = [arg.value for arg in args if isinstance(arg, Const) and isinstance(arg.value, int)]
    if args and len(ends) == len(args) and (len(ends) < 3 or ends[2]):
        numbers = range(*ends)
        shown = numbers if len(numbers) <= _MOST_NUMBERS else numbers[:2]
        items: list[Value] = [Const(number) for number in shown]
        return Items(items, rest=PLAIN if len(numbers) > len(shown) else None)
    first: list[Value] = [Const(0)] if len(args) == 1 else [arg for arg in args[:1] if isinstance(arg, Const)]
    return Items(first, rest=PLAIN)


def _zip(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    columns = [iterate(interpreter, arg, node, most=8) for arg in args]
    exact = any(is_exact(arg) for arg in args)
    length = min((len(column) for column in columns), default=0)
    rows: list[Value] = [Items([column[place] for column in columns], "tuple") for place in range(length)]
    return Items(rows, rest=None if exact or not rows else rows[-1])


def _enumerate(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    items = iterate(interpreter, args[0], node, most=8) if args else []
    rows: list[Value] = [Items([Const(place), item], "tuple") for place, item in enumerate(items)]
    exact = bool(args) and is_exact(args[0])
    return Items(rows, rest=None if exact or not rows else Items([PLAIN, items[-1]], "tuple"))


def _as_list(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    if not args:
        return Items([])
    if isinstance(args[0], Unknown):
        return UNKNOWN
    if isinstance(args[0], Items):
        return Items(list(args[0].items), "list", args[0].rest)
    items = iterate(interpreter, args[0], node, most=16)
    return Items(items, "list", None if is_exact(args[0]) else join(items))


def _as_dict(_i: Interpreter, args: list[Value], keywords: dict[str, Value], _n: ast.AST) -> Value:
    made = Dictionary(dict(args[0].items), args[0].rest) if args and isinstance(args[0], Dictionary) else Dictionary()
    if args and isinstance(args[0], Items):
        for pair in args[0].items:
            if isinstance(pair, Items) and len(pair.items) == 2:
                set_item(made, pair.items[0], pair.items[1])
    made.items.update(keywords)
    return made


def _map(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    if len(args) < 2:
        return UNKNOWN
    rows = zip(*(iterate(interpreter, arg, node, most=8) for arg in args[1:]), strict=False)
    made = [interpreter.call(args[0], list(row), {}, node) for row in rows]
    return Items(made, "list", None if is_exact(args[1]) else join(made))


def _sum(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    total: Value = args[1] if len(args) > 1 else Const(0)
    for item_value in iterate(interpreter, args[0], node, most=4) if args else []:
        total = interpreter.binary(ast.Add(), total, item_value, node)
    return total


def _isinstance(_i: Interpreter, args: list[Value], _k: dict[str, Value], _n: ast.AST) -> Value:
    if len(args) != 2:
        return PLAIN
    from outplace.source import torch_model

    kinds = args[1].items if isinstance(args[1], Items) else [args[1]]
    answers = [torch_model.is_instance(args[0], kind) for kind in kinds]
    if True in answers:
        return Const(True)
    return PLAIN if None in answers else Const(False)


def _getattr(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    if len(args) >= 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        found = interpreter.attribute(args[0], args[1].value, node)
        return found if not isinstance(found, Bound) or len(args) == 2 else join([found, args[2]])
    return UNKNOWN


def _setattr(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        interpreter.set_attribute(args[0], args[1].value, args[2], node)
    return NONE


def _super(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], _n: ast.AST) -> Value:
    frame = next((frame for frame in reversed(interpreter.frames) if frame.function and frame.function.owner), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    if frame is None or frame.function is None or frame.function.owner is None:
        return UNKNOWN
    node = frame.function.node
    first = node.args.args[0].arg if node.args.args else ""
    receiver = frame.scope.names.get(first)
    return Super(receiver, frame.function.owner) if receiver is not None else UNKNOWN


def _first(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    items = iterate(interpreter, args[0], node) if args else []
    return items[0] if items else UNKNOWN


def _same(_i: Interpreter, args: list[Value], _k: dict[str, Value], _n: ast.AST) -> Value:
    return args[0] if args else UNKNOWN


def _reversed(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    if args and isinstance(args[0], Items):
        return Items(list(reversed(args[0].items)), "list", args[0].rest)
    return _as_list(interpreter, args, {}, node)


def _length(_i: Interpreter, args: list[Value], _k: dict[str, Value], _n: ast.AST) -> Value:
    if args and isinstance(args[0], Tensor) and args[0].shape and args[0].shape[0] is not None:
        return Const(args[0].shape[0])
    if args and isinstance(args[0], Items) and args[0].rest is None:
        return Const(len(args[0].items))
    return PLAIN


def _extreme(interpreter: Interpreter, args: list[Value], _k: dict[str, Value], node: ast.AST) -> Value:
    items = args if len(args) > 1 else iterate(interpreter, args[0], node) if args else []
    return PLAIN if all(isinstance(item, Plain | Const) for item in items) else join(items)


_CALLS: dict[str, Any] = {
    "range": _range, "zip": _zip, "enumerate": _enumerate, "list": _as_list, "tuple": _as_list, "set": _as_list,
    "sorted": _as_list, "dict": _as_dict, "map": _map, "sum": _sum, "isinstance": _isinstance, "getattr": _getattr,
    "setattr": _setattr, "super": _super, "next": _first, "iter": _same, "reversed": _reversed, "len": _length,
    "max": _extreme, "min": _extreme, "filter": lambda i, a, k, n: _as_list(i, a[1:], k, n),
}  # fmt: skip

_PLAIN_BUILTINS = {
    "int", "float", "str", "bool", "abs", "print", "open", "hasattr", "callable", "type", "id", "hash", "repr", "round",
    "any", "all", "format", "input", "ord", "chr", "bytes", "pow", "divmod", "issubclass", "vars", "dir",
}  # fmt: skip
