"""Functions of Python's own and of other libraries."""

from __future__ import annotations

import ast
import math
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
    Bound,
    Const,
    Dictionary,
    Done,
    Instance,
    Items,
    Layer,
    Outside,
    Partial,
    Plain,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

from outplace.source.python_model.builtin_calls import CALLS, PLAIN_BUILTINS, as_dict, as_mapped

# Libraries whose results are surely no tensors.
_NO_TENSORS = {
    "numpy", "math", "random", "os", "sys", "time", "json", "logging", "argparse", "re", "pathlib", "datetime",
    "pandas", "matplotlib", "scipy", "sklearn", "csv", "pickle", "shutil", "string", "io", "gc", "warnings",
    "cv2", "PIL",
}  # fmt: skip


MODELLED = {"einops", "numpy", "tqdm", "pandas", "matplotlib", "scipy", "sklearn", "cv2", "PIL"}
"""Libraries whose files are not read, even where they lie beside the project: what their functions do is known."""

_NUMBERS = {f"{library}.{name}": Const(getattr(math, name)) for library in ("math", "numpy") for name in ("pi", "e")}


def outside(name: str) -> Value:
    """Something of another library, by its full name."""
    return _NUMBERS.get(name) or Outside(name)


def call_outside(
    interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A call of a builtin or of another library's function."""
    library, _, function = name.partition(".")
    if name == "builtins.dict.fromkeys" and len(args) > 1:
        return _one_for_all(args[0], args[1])
    if library == "builtins":
        run = CALLS.get(function)
        if run is not None:
            found = run(interpreter, args, keywords, node)
            return found if isinstance(found, Value) else UNKNOWN
        return PLAIN if function in PLAIN_BUILTINS else UNKNOWN
    if library == "operator" and function in _IN_PLACE_OPERATORS and len(args) == 2:
        return _operator(interpreter, function, args, node)
    if library == "asyncio":
        return Items(list(args), "tuple") if function == "gather" else args[0] if args else NONE
    if name == "threading.Thread" and "target" in keywords:
        given = keywords.get("args")
        interpreter.call(keywords["target"], spread(given) if given is not None else [], {}, node)
        return PLAIN
    if library == "copy" and args:
        if function == "copy":
            torch_model.note_shallow(args[0])
            return _shallow_copy(interpreter, args[0])
        return _deep_copy(interpreter, args[0], {})
    if name == "dataclasses.field":
        made = keywords.get("default_factory")
        return keywords.get("default", UNKNOWN) if made is None else Bound(DEFAULT_FACTORY, made)
    if name == "dataclasses.replace" and args and isinstance(args[0], Instance):
        return records.replaced(args[0], keywords)
    if name == "contextlib.nullcontext":
        return args[0] if args else NONE
    if name == "functools.partial" and args:
        return _partial(args, keywords)
    if name == "functools.reduce" and len(args) > 1:
        return _reduce(interpreter, args, node)
    if name in ("concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool"):
        return Outside("pool")
    if name in ("pool.map", "pool.imap"):
        return as_mapped(interpreter, args, keywords, node)
    if name in ("pool.submit", "pool.apply_async") and args:
        return Done(interpreter.call(args[0], args[1:], keywords, node))
    if name == "concurrent.futures.as_completed" and args:
        return args[0]
    if name in ("collections.deque", "collections.OrderedDict", "collections.defaultdict", "itertools.chain"):
        return _collection(interpreter, name, args, node)
    if name == "itertools.repeat" and args:
        return _repeated(args[0], args[1] if len(args) > 1 else keywords.get("times", PLAIN))
    if name in ("itertools.count", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange"):
        return args[0] if name.endswith("tqdm") and args else PLAIN
    if name in ("collections.namedtuple", "types.SimpleNamespace", "argparse.Namespace", "argparse.ArgumentParser",
                "contextlib.ExitStack"):  # fmt: skip
        return records.make(interpreter, name, args, keywords)
    if library == "numpy":
        return _numpy(interpreter, function.rpartition(".")[2], args, keywords, node)
    if library == "einops":
        return torch_model.call_einops(interpreter, function.rpartition(".")[2], args, keywords, node) or UNKNOWN
    return PLAIN if library in _NO_TENSORS else UNKNOWN


def _numpy(
    interpreter: Interpreter, function: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A function of numpy: it may write an array that shares its memory with a tensor."""
    written = keywords.get("out", args[0] if args and function in ARRAY_WRITING_FUNCTIONS else None)
    if written is not None:
        torch_model.forget_array(interpreter, written)
    if isinstance(written, Plain) and written.storage is not None:
        torch_model.numpy_write(interpreter, written, node)
        return written
    return _over(args[0]) if args and function in ARRAY_VIEWS else Plain()


def _one_for_all(keys: Value, value: Value) -> Value:
    """`dict.fromkeys(keys, value)`."""
    names = spread(keys) if isinstance(keys, Items) else []
    if isinstance(value, Tensor):
        value.many = True
    return Dictionary({key.value: value for key in names if isinstance(key, Const)}, value)


_IN_PLACE_OPERATORS = {f"i{middle}": operator for operator, middle in DUNDERS.items() if operator is not ast.MatMult}


def _operator(interpreter: Interpreter, function: str, args: list[Value], node: ast.AST) -> Value:
    """`operator.iadd(x, y)`: what `x += y` does."""
    if isinstance(args[0], Tensor):
        return torch_model.run_op(interpreter, spellings(f"__{function}__")[0], args, {}, node, method=True)
    return interpreter.binary(_IN_PLACE_OPERATORS[function](), args[0], args[1], node)


def _reduce(interpreter: Interpreter, args: list[Value], node: ast.AST) -> Value:
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


def _repeated(value: Value, times: Value) -> Value:
    """`itertools.repeat(value, times)`."""
    if isinstance(times, Const) and isinstance(times.value, int) and times.value <= _MOST_REPEATED:
        return Items([value] * times.value)
    return Items([value], rest=value)


_MOST_REPEATED = 8


def _partial(args: list[Value], keywords: dict[str, Value]) -> Value:
    return Partial(args[0], args[1:], keywords)


def _collection(interpreter: Interpreter, name: str, args: list[Value], node: ast.AST) -> Value:
    if name == "collections.deque":
        return Items(list(args[0].items) if args and isinstance(args[0], Items) else [], "list")
    if name == "itertools.chain":
        made = Items([])
        for argument in args:
            extend(made, argument)
        return made
    return as_dict(interpreter, args if name == "collections.OrderedDict" else [], {}, node)


def _shallow_copy(interpreter: Interpreter, value: Value) -> Value:
    """`copy.copy(value)`: a container of its own, with the same items in it."""
    if isinstance(value, Tensor):
        return _deep_copy(interpreter, value, {})
    if isinstance(value, Items):
        made: Items | Dictionary | Instance = Items(list(value.items), value.kind, value.rest)
    elif type(value) is Dictionary:
        made = Dictionary(dict(value.items), value.rest)
    elif isinstance(value, Instance) and value.cls.torch_base() is None:
        made = Instance(value.cls)
        made.names.update(value.names)
    else:
        return value
    holders.link(made, value)
    return made


def _deep_copy(interpreter: Interpreter, value: Value, seen: dict[int, Value]) -> Value:
    """A copy with memory of its own all the way down."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Tensor):
        made: Value = torch_model.copied(interpreter, value)
    elif isinstance(value, Items):
        made = seen[id(value)] = Items([], value.kind, value.rest)  # known before its items, which may hold it
        made.items.extend([_deep_copy(interpreter, item, seen) for item in value.items])
    elif isinstance(value, Dictionary):
        made = seen[id(value)] = Dictionary({}, value.rest)
        made.items.update({key: _deep_copy(interpreter, item, seen) for key, item in value.items.items()})
    elif isinstance(value, Instance):
        made = seen[id(value)] = Instance(value.cls)
        made.names.update({name: _deep_copy(interpreter, item, seen) for name, item in value.names.items()})
    elif isinstance(value, Layer):
        made = seen[id(value)] = Layer(value.kind, value.options)
        made.training, made.sizes = value.training, value.sizes
        made.parametrized, made.remade = value.parametrized, dict(value.remade)
        made.computed = {name: list(those) for name, those in value.computed.items()}
        made.state = {name: torch_model.copied(interpreter, item) for name, item in value.state.items()}
        made.children = {name: _deep_copy(interpreter, item, seen) for name, item in value.children.items()}
    else:
        made = value
    seen[id(value)] = made
    return made
