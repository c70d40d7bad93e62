"""Facts about names of torch that need no samples: how functions are called, what makes a tensor, what makes none."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from op_table_traits import FAILURES, kind_of, same, storage
from torch import nn

SIZES = (2, 3)
NUMBER_TYPES = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
FROM_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack")


def quiet(call: Callable[[], Any], seed: int = 0) -> Any:
    """The result of a call, None where it fails."""
    torch.manual_seed(seed)
    with contextlib.suppress(*FAILURES, ImportError, AssertionError, OverflowError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()
    return None


def inplace_positions() -> dict[str, int]:
    """Where `inplace` stands among the positional arguments of functions and of the constructors of modules."""
    found = {}
    for prefix, holder in (("nn.functional.", F), ("nn.", nn)):
        for name in sorted(dir(holder)):
            target = getattr(holder, name)
            if name.startswith("_") or not callable(target):
                continue
            with contextlib.suppress(TypeError, ValueError):
                names = list(inspect.signature(plain_function(name, target)).parameters)
                if "inplace" in names:
                    found[prefix + name] = names.index("inplace")
    return found


def plain_function(name: str, target: Any) -> Any:
    """`F._threshold` behind `F.threshold`, whose own signature says nothing."""
    named = "input" in inspect.signature(target).parameters or isinstance(target, type)
    return target if named else getattr(F, f"_{name}", target)


def functions_in_place() -> list[str]:
    """Functions of the torch namespace that end in an underscore."""
    return sorted(n for n in dir(torch) if n.endswith("_") and not n.startswith("_") and callable(getattr(torch, n)))


def factories() -> dict[str, str]:
    """Functions that make a tensor of sizes or numbers; the kind of their result, `?` where the arguments decide it.

    ATen gives them `pin_memory`, an argument that nothing else has.
    """
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    makers = {s.name[6:] for s in schemas if any(a.name == "pin_memory" for a in s.arguments)}
    found = {}
    for name in sorted(makers):
        if not name.startswith("_") and callable(getattr(torch, name, None)):
            kinds = {kind_of(made) for made in made_by(getattr(torch, name))}
            if kinds:
                found[name] = kinds.pop() if len(kinds) == 1 else "?"
    for name in sorted(n for n in dir(torch) if n.endswith("Tensor")):
        made = quiet(lambda name=name: getattr(torch, name)(2))
        if isinstance(made, torch.Tensor):
            found[name] = kind_of(made)
    return found | dict.fromkeys((n for n in FROM_DATA if hasattr(torch, n)), "?")


def made_by(function: Callable[..., Any], seed: int = 0) -> Iterator[torch.Tensor]:
    """What a factory makes of the arguments that it accepts."""
    like = torch.rand(SIZES)
    whole = torch.ones(SIZES, dtype=torch.int64)
    tries: tuple[tuple[Any, ...], ...] = (
        (3,), (3.0,), (SIZES,), (SIZES, 1), (SIZES, 1.0), (3, SIZES), (like,), (whole,), (like, 3), (whole, 3),
        (0.0, 1.0, 3), (0, 1, 3), (3, 3), (SIZES, (3, 1)), (SIZES, (0, 1)), (0.0, 1.0, SIZES),
    )  # fmt: skip
    for args in tries:
        made = quiet(lambda args=args: function(*args), seed)
        if isinstance(made, torch.Tensor) and made.layout == torch.strided:
            yield made


def random_factories(names: dict[str, str]) -> list[str]:
    """Factories whose result another seed changes; what `empty` makes is undefined, not random."""
    found = []
    for name in names:
        if "empty" in name or name.endswith("Tensor"):
            continue
        pairs = zip(made_by(getattr(torch, name)), made_by(getattr(torch, name), seed=1), strict=False)
        if any(one.numel() > 1 and not same(one, other) for one, other in pairs):
            found.append(name)
    return found


def array_takers() -> list[str]:
    """Functions whose result lies in the memory of the numpy array that they are given."""
    import numpy

    found = []
    for name in FROM_DATA:
        array = numpy.zeros(4, dtype=numpy.float32)
        options = {"dtype": torch.float32} if name == "frombuffer" else {}
        made = quiet(lambda name=name, array=array, options=options: getattr(torch, name)(array, **options))
        if isinstance(made, torch.Tensor):
            made.fill_(1)
            found += [name] if array[0] == 1 else []
    return found


def public(owner: Any) -> list[str]:
    """Public names, and `__len__`."""
    return [n for n in sorted(dir(owner)) if not n.startswith("_") or n == "__len__"]


def names_of_tensors_alone() -> list[str]:
    """Attributes and methods of tensors, none in place, that neither Python's own types nor modules have."""
    others = {name for kind in (str, bytes, list, dict, set, int, complex, slice, nn.Module) for name in dir(kind)}
    return [name for name in public(torch.Tensor) if name not in others and not name.endswith("_")]


def is_plain(value: Any) -> bool:
    """Numbers, words, dtypes, and tuples and lists of them: nothing that holds memory."""
    if isinstance(value, (tuple, list)):
        return all(map(is_plain, value))
    return isinstance(value, NUMBER_TYPES)


def plain_methods() -> list[str]:
    """Methods of tensors that give numbers or words."""
    found = []
    for name in public(torch.Tensor):
        if not callable(getattr(torch.Tensor, name)) or (name.endswith("_") and name != "__len__"):
            continue
        tries = ((), (0,))
        made = [quiet(lambda name=name, args=args: getattr(torch.ones(1), name)(*args)) for args in tries]
        made = [value for value in made if value is not None]
        if made and all(map(is_plain, made)):
            found.append(name)
    return found


def attributes() -> tuple[list[str], list[str]]:
    """Attributes of tensors that are numbers or words; attributes that are tensors in the same memory."""
    plain, views = [], []
    for name in public(torch.Tensor):
        if callable(getattr(torch.Tensor, name)):
            continue
        for dtype in (torch.float32, torch.complex64):
            tensor = torch.ones(2, 3, dtype=dtype)
            value = quiet(lambda tensor=tensor, name=name: getattr(tensor, name))
            if is_plain(value):
                plain.append(name)
            elif isinstance(value, torch.Tensor) and storage(value) == storage(tensor):
                views.append(name)
    return sorted(set(plain)), sorted(set(views))


def variadic(makers: dict[str, str]) -> list[str]:
    """Factories and methods that take sizes one by one or as a tuple: `x.view(2, 3)`, `torch.zeros(2, 3)`."""
    found = set()
    for name in makers:
        made = [quiet(lambda name=name, a=a: getattr(torch, name)(*a)) for a in (SIZES, (SIZES,))]
        found |= {name} if _alike(made) else set()
    for name in public(torch.Tensor):
        for shape, sizes in (((3, 2), SIZES), ((3, 2), (1, 0)), ((1, 1), SIZES)):
            made = [
                quiet(lambda name=name, a=a, shape=shape: getattr(torch.ones(shape), name)(*a))
                for a in (sizes, (sizes,))
            ]
            found |= {name} if _alike(made) else set()
    return sorted(n for n in found if not n.endswith("_"))


def _alike(made: list[Any]) -> bool:
    one, other = made
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape


def conversions() -> list[str]:
    """Methods that give the tensor itself where it has the dtype already."""
    found = []
    for name in public(torch.Tensor):
        once = quiet(lambda name=name: getattr(torch.ones(2, 3), name)()) if not name.endswith("_") else None
        if isinstance(once, torch.Tensor) and once.shape == (2, 3):
            again = quiet(lambda name=name, once=once: getattr(once, name)())
            found += [name] if again is once else []
    return found


def refuse_themselves() -> list[str]:
    """In-place methods by index that may not read the tensor that they write."""
    found = []
    rows = torch.arange(4)
    tries: tuple[tuple[Any, ...], ...] = (
        (0, rows, None), (0, rows.expand(4, 4), None), ((rows,), None), (0, rows, None, "mean"),
        (0, rows.expand(4, 4), None, "mean"), (rows.repeat(4), None),
    )  # fmt: skip
    for name in public(torch.Tensor):
        for args in tries if name.endswith("_") else ():
            tensor = torch.rand(4, 4)
            given = [tensor if arg is None else arg for arg in args]
            try:
                getattr(tensor, name)(*given)
            except FAILURES as error:
                found += [name] if "single memory location" in str(error) else []
    return sorted(set(found))


def replacing_inits() -> list[str]:
    """Functions of `nn.init` whose result does not depend on what was there."""
    found = []
    for name in public(nn.init):
        for args in ((), (0.5,)):
            results = []
            for start in (torch.zeros(4, 4, 3, 3), torch.ones(4, 4, 3, 3)):
                tensor = start if name == "dirac_" else start[:, :, 0, 0].clone()
                results.append(quiet(lambda name=name, t=tensor, args=args: getattr(nn.init, name)(t, *args)))
            if name.endswith("_") and isinstance(results[0], torch.Tensor) and same(results[0], results[1]):
                found.append(f"nn.init.{name}")
    return sorted(set(found))


def collect() -> dict[str, Any]:
    """The parts of the table that speak of names; what is a trait goes under `traits`."""
    made = factories()
    plain, views = attributes()
    return {
        "inplace_at": inplace_positions(),
        "factories": made,
        "traits": {
            "random": random_factories(made),
            "may_share": conversions() + array_takers(),
            "takes_array": array_takers(),
            "from_data": [n for n in FROM_DATA if hasattr(torch, n)],
            "only_of_tensors": names_of_tensors_alone(),
            "plain_method": plain_methods(),
            "plain_attribute": plain,
            "view_attribute": views,
            "variadic": variadic(made),
            "refuses_itself": refuse_themselves(),
            "replaces": replacing_inits(),
            "function_in_place": functions_in_place(),
        },
    }
