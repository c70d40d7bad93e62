"""Functions of Python's own and of other libraries."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from outplace.knowledge.by_hand import ARRAY_VIEWS, ARRAY_WRITING_FUNCTIONS
from outplace.knowledge.names import DUNDERS, spellings
from outplace.source import holders, records, torch_model
from outplace.source.contents import extend, spread
from outplace.source.python_model.containers import iterate
from outplace.source.values import (
    DEFAULT_FACTORY,
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Bound,
    Const,
    Dictionary,
    Done,
    Instance,
    Items,
    Keywords,
    Layer,
    Outside,
    Partial,
    Plain,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

from outplace.source.python_model.builtin_calls import CALLS, PLAIN_BUILTINS, as_dict, as_mapped

Function = Callable[["Interpreter", list[Value], dict[str, Value], ast.AST], Value | None]
"""Runs a call; None where nothing is known of a call with such arguments."""

# Libraries whose results are surely no tensors.
_NO_TENSORS = {
    "numpy", "math", "random", "os", "sys", "time", "json", "logging", "argparse", "re", "pathlib", "datetime",
    "pandas", "matplotlib", "scipy", "sklearn", "csv", "pickle", "shutil", "string", "io", "gc", "warnings",
    "cv2", "PIL",
}  # fmt: skip


MODELLED = {"einops", "numpy", "tqdm", "pandas", "matplotlib", "scipy", "sklearn", "cv2", "PIL"}
"""Libraries whose files are not read, even where they lie beside the project: what their functions do is known."""

_CONSTANTS = {f"{library}.{name}": Const(getattr(math, name)) for library in ("math", "numpy") for name in ("pi", "e")}
_CONSTANTS["typing.TYPE_CHECKING"] = Const(False)  # as in a run: what is imported only for types is not read


def outside(name: str) -> Value:
    """Something of another library, by its full name."""
    return _CONSTANTS.get(name) or Outside(name)


def call_outside(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """A call of a builtin or of another library's function."""
    library, _, function = name.partition(".")
    run = _FUNCTIONS.get(name)
    found = run(interpreter, args, keywords, node) if run is not None else None
    if found is None and library in _LIBRARIES:
        found = _LIBRARIES[library](interpreter, function, args, keywords, node)
    if found is None:
        return PLAIN if library in _NO_TENSORS else UNKNOWN
    return found


def _builtin(interpreter: Interpreter, function: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    run = CALLS.get(function)
    if run is None:
        return PLAIN if function in PLAIN_BUILTINS else UNKNOWN
    found = run(interpreter, args, keywords, node)
    return found if isinstance(found, Value) else UNKNOWN


def _copy(interpreter: Interpreter, function: str, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    if not args:
        return None
    if function == "copy":
        if _is_read(interpreter, node):
            torch_model.note_shallow(args[0])
        return _shallow_copy(interpreter, args[0])
    return _deep_copy(interpreter, args[0], {})


def _thread(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`threading.Thread(target=...)`: the function is taken to run at once."""
    if "target" not in keywords:
        return None
    arguments = keywords.get("args")
    interpreter.call(keywords["target"], spread(arguments) if arguments is not None else [], {}, node)
    return PLAIN


def _submit(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`pool.submit(function, ...)`: the function is taken to run at once."""
    return Done(interpreter.call(args[0], args[1:], keywords, node)) if args else None


def _field(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`dataclasses.field(...)`: its default."""
    factory = keywords.get("default_factory")
    return keywords.get("default", UNKNOWN) if factory is None else Bound(DEFAULT_FACTORY, factory)


def _numpy(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """A function of numpy: it may write an array that shares its memory with a tensor."""
    function = name.rpartition(".")[2]
    written = keywords.get("out", args[0] if args and function in ARRAY_WRITING_FUNCTIONS else None)
    if written is not None:
        torch_model.forget_array(interpreter, written)
    if isinstance(written, Plain) and written.storage is not None:
        torch_model.numpy_write(interpreter, written, node)
        return written
    return _over(args[0]) if args and function in ARRAY_VIEWS else Plain()


def _from_keys(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`dict.fromkeys(keys, value)`: the same value under all keys."""
    if len(args) < 2:
        return None
    value = args[1]
    names = spread(args[0]) if isinstance(args[0], Items) else []
    if isinstance(value, Tensor):
        value.fills_list = True
    return Dictionary({key.value: value for key in names if isinstance(key, Const)}, value)


_IN_PLACE_OPERATORS = {f"i{middle}": operator for operator, middle in DUNDERS.items() if operator is not ast.MatMult}


def _operator(interpreter: Interpreter, function: str, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`operator.iadd(x, y)`: what `x += y` does."""
    if function not in _IN_PLACE_OPERATORS or len(args) != 2:
        return None
    if isinstance(args[0], Tensor):
        return torch_model.run_op(interpreter, spellings(f"__{function}__")[0], args, {}, node, method=True)
    return interpreter.binary(_IN_PLACE_OPERATORS[function](), args[0], args[1], node)


def _reduce(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`functools.reduce(function, items)`."""
    if len(args) < 2:
        return None
    items = iterate(interpreter, args[1], node, most=4)
    if len(args) > 2:
        items = [args[2], *items]
    total = items[0] if items else UNKNOWN
    for item_value in items[1:]:
        total = interpreter.call(args[0], [total, item_value], {}, node)
    return total


def _over(value: Value) -> Plain:
    """An array over the same memory."""
    sure = value.sure if isinstance(value, Plain) else not isinstance(value, Tensor) or value.certain
    return Plain(value.storage if isinstance(value, (Plain, Tensor)) else None, sure=sure)


def _repeat(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """`itertools.repeat(value, times)`."""
    if not args:
        return None
    value, times = args[0], args[1] if len(args) > 1 else keywords.get("times", PLAIN)
    if isinstance(times, Const) and isinstance(times.value, int) and times.value <= _MOST_REPEATED:
        return Items([value] * times.value)
    return Items([value], rest=value)


_MOST_REPEATED = 8


def _chain(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    sequence = Items([])
    for argument in args:
        extend(sequence, argument)
    return sequence


_RECORDS = (
    "collections.namedtuple", "types.SimpleNamespace", "argparse.Namespace", "argparse.ArgumentParser",
    "contextlib.ExitStack",
)  # fmt: skip


def _record(name: str) -> Function:
    return lambda interpreter, args, keywords, node: records.make(interpreter, name, args, keywords)


def _is_read(interpreter: Interpreter, node: ast.AST) -> bool:
    """Is the name or attribute that gets the value read anywhere in the file?"""
    tree = interpreter.place(node).module.tree
    assigned = (item for item in ast.walk(tree) if isinstance(item, ast.Assign) and item.value is node) if tree else ()
    target = next((item.targets[0] for item in assigned), None)
    if tree is None or not isinstance(target, ast.Name | ast.Attribute):
        return True
    name = target.id if isinstance(target, ast.Name) else target.attr
    loads = (item for item in ast.walk(tree) if isinstance(item, type(target)) and isinstance(item.ctx, ast.Load))
    return any(name == (item.id if isinstance(item, ast.Name) else item.attr) for item in loads)


def _shallow_copy(interpreter: Interpreter, value: Value) -> Value:
    """`copy.copy(value)`: a container of its own, with the same items in it."""
    if isinstance(value, Tensor):
        return _deep_copy(interpreter, value, {})
    if isinstance(value, Items):
        result: Items | Dictionary | Instance = Items(list(value.items), value.kind, value.rest)
    elif type(value) is Dictionary:
        result = Dictionary(dict(value.items), value.rest)
    elif isinstance(value, Instance) and value.cls.torch_base() is None:
        result = Instance(value.cls)
        result.names.update(value.names)
    else:
        return value
    holders.link(result, value)
    return result


def _deep_copy(interpreter: Interpreter, value: Value, seen: dict[int, Value]) -> Value:
    """A copy with memory of its own all the way down."""
    if id(value) in seen:
        return seen[id(value)]
    interpreter.require_time()
    if isinstance(value, Tensor):
        result: Value = torch_model.copied(interpreter, value)
    elif isinstance(value, Items):
        result = seen[id(value)] = Items([], value.kind, value.rest)  # known before its items, which may hold it
        result.items.extend([_deep_copy(interpreter, item, seen) for item in value.items])
    elif isinstance(value, Dictionary):
        result = seen[id(value)] = Dictionary({}, value.rest)
        result.items.update({key: _deep_copy(interpreter, item, seen) for key, item in value.items.items()})
    elif isinstance(value, Instance):
        result = seen[id(value)] = Instance(value.cls)
        result.names.update({name: _deep_copy(interpreter, item, seen) for name, item in value.names.items()})
    elif isinstance(value, Layer):
        result = seen[id(value)] = Layer(value.kind, value.options)
        result.training, result.sizes = value.training, value.sizes
        result.parametrized, result.recomputed = value.parametrized, dict(value.recomputed)
        result.computed = {name: list(those) for name, those in value.computed.items()}
        result.state = {name: torch_model.copied(interpreter, item) for name, item in value.state.items()}
        result.children = {name: _deep_copy(interpreter, item, seen) for name, item in value.children.items()}
    elif isinstance(value, Unknown) and not value.of:
        result = type(value)()
    else:
        result = value
    seen[id(value)] = result
    return result


# In the tables below: i the interpreter, a the arguments, k the keywords, n the node of the call.
_FUNCTIONS: dict[str, Function] = {
    "builtins.dict.fromkeys": _from_keys,
    "threading.Thread": _thread,
    "dataclasses.field": _field,
    "dataclasses.replace": lambda i, a, k, n: records.replaced(a[0], k) if a and isinstance(a[0], Instance) else None,
    "contextlib.nullcontext": lambda i, a, k, n: a[0] if a else NONE,
    "functools.partial": lambda i, a, k, n: Partial(a[0], a[1:], k) if a else None,
    "functools.reduce": _reduce,
    "concurrent.futures.ThreadPoolExecutor": lambda i, a, k, n: Outside("pool"),
    "multiprocessing.pool.ThreadPool": lambda i, a, k, n: Outside("pool"),
    "pool.map": as_mapped,
    "pool.imap": as_mapped,
    "pool.submit": _submit,
    "pool.apply_async": _submit,
    "concurrent.futures.as_completed": lambda i, a, k, n: a[0] if a else None,
    "collections.deque": lambda i, a, k, n: Items(list(a[0].items) if a and isinstance(a[0], Items) else [], "list"),
    "collections.OrderedDict": lambda i, a, k, n: as_dict(i, a, {}, n),
    "collections.defaultdict": lambda i, a, k, n: as_dict(i, [], {}, n),
    "itertools.chain": _chain,
    "itertools.repeat": _repeat,
    "itertools.count": lambda i, a, k, n: PLAIN,
    "tqdm.trange": lambda i, a, k, n: PLAIN,
    "tqdm.tqdm": lambda i, a, k, n: a[0] if a else PLAIN,
    "tqdm.auto.tqdm": lambda i, a, k, n: a[0] if a else PLAIN,
    **{name: _record(name) for name in _RECORDS},
}

_LIBRARIES: dict[str, Callable[[Interpreter, str, list[Value], dict[str, Value], ast.AST], Value | None]] = {
    "builtins": _builtin,
    "operator": _operator,
    "asyncio": lambda i, name, a, k, n: Items(list(a), "tuple") if name == "gather" else a[0] if a else NONE,
    "copy": _copy,
    "numpy": _numpy,
    "einops": lambda i, name, a, k, n: torch_model.call_einops(i, name.rpartition(".")[2], a, k, n),
}
"""Libraries any of whose functions may be of interest: each is run with the function's name in the library."""
