"""Calls to measure: torch's own op database, what it lacks, and the modules of `torch.nn`."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from op_table_measure import Sample, Tensors, flat
from torch import nn

PER_ENTRY = 100

# Parameters of callables whose signature says nothing (`*args`), in order; `*` marks "all the rest".
SIGNATURES = {
    "einsum": ["equation", "*operands"],
    "__getitem__": ["input", "index"],
    "__setitem__": ["input", "index", "value"],
    "meshgrid": ["*tensors"],
    "broadcast_tensors": ["*tensors"],
    "block_diag": ["*tensors"],
    "cartesian_prod": ["*tensors"],
    "atleast_1d": ["*tensors"],
    "atleast_2d": ["*tensors"],
    "atleast_3d": ["*tensors"],
    "normal": ["mean", "std"],
}

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")

# Numbers that choose between formulas.
NUMBERS = ("p", "ord", "beta", "label_smoothing", "dropout_p")

# Named here and not measured through the op database: calls in another order, internal, or not for users.
SKIP = {
    "einsum",
    "nn.functional.embedding",
    "pca_lowrank",
    "svd_lowrank",
    *(f"nn.functional.{name}" for name in DROPOUTS),
    "__getitem__",
    "sparse.mm",
    "sparse.sampled_addmm",
    "_chunk_cat",
    "jiterator_unary",
}


def op_db() -> list[Any]:
    """`torch.testing`'s op database; its import wants `expecttest`, which nothing we use needs."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            stub = types.ModuleType("expecttest")
            stub.TestCase = object  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stub
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db as database
    from torch.testing._internal.opinfo import core

    for module in (common_utils, core):
        # Each draw of samples searches the whole stack for a test of torch's own, and takes ten times as long by that.
        module.extract_test_fn = lambda: None
    return [op for op in database if _wanted(op.name)]


def _wanted(name: str) -> bool:
    private = name.startswith("_") and not name.startswith("__")
    private |= name.startswith("__r")  # reflected operators: `mul` answers for both sides
    return (
        not private
        and not (name.endswith("_") and not name.endswith("__"))
        and name not in SKIP
        and not name.startswith(("ops.", "torch.", "jiterator", "masked."))
        and "_backward" not in name
    )


class Signature:
    """The formal parameters of an operation: names in order, defaults of those that are strings or flags."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schemas = _schemas(name)
        self.python = None if name in SIGNATURES else _python_signature(name)
        self.positions: dict[int, list[str]] = {}
        self.tensors: set[str] = set()
        self.self_at = 0
        if self.schemas and not self.python:
            places = [[a.name for a in s.arguments if not a.kwarg_only] for s in self.schemas]
            self.self_at = (
                max(names.index("self") for names in places if "self" in names)
                if any("self" in n for n in places)
                else 0
            )

    def bind(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by formal name, and defaults that are strings or flags. `self` is called `input`."""
        if self.name in SIGNATURES:
            names = SIGNATURES[self.name]
            bound = {n.strip("*"): value for n, value in zip(names, (first, *args), strict=False)}
            self._note(enumerate(names), bound)
            return {**bound, **kwargs}
        if self.python is not None:
            try:
                call = self.python.bind(first, *args, **kwargs)
            except TypeError:
                return self._unnamed(first, args, kwargs)
            call.apply_defaults()
            bound = dict(call.arguments)
            self._note(enumerate(self.python.parameters), bound)
            return bound
        for schema in self.schemas:
            arguments = [a for a in schema.arguments if not a.is_out]
            fitted = _fit(arguments, self.self_at, first, args, kwargs)
            if fitted is not None:
                self._note(enumerate(_plain(a.name) for a in arguments if not a.kwarg_only), fitted)
                return fitted
        return self._unnamed(first, args, kwargs)

    def _unnamed(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = {"input": first, **{f"arg{n}": value for n, value in enumerate(args, 1)}, **kwargs}
        if not self.positions:
            self._note([(0, "input")], bound)
        return bound

    def _note(self, places: Any, bound: dict[str, Any]) -> None:
        for place, name in places:
            met = self.positions.setdefault(place, [])
            if flat(bound.get(name.strip("*"))):
                self.tensors.add(name)
            if name not in met:
                met.append(name)

    def named(self, count: int) -> set[str]:
        """The names that the first `count` positions can have."""
        return {name.strip("*") for place, names in self.positions.items() if place < count for name in names}

    def params(self) -> list[str]:
        """Names by position as far as they were met; `other|dim` where overloads differ, those for tensors first."""
        return [
            "|".join(sorted(dict.fromkeys(self.positions[i]), key=lambda n: (n not in self.tensors, n)))
            for i in range(len(self.positions))
        ]


def _plain(name: str) -> str:
    return "input" if name == "self" else name


def _fit(
    arguments: list[Any], self_at: int, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    places = [a for a in arguments if not a.kwarg_only]
    if self_at < len(places) and places[self_at].name == "self":
        places = [places[self_at], *places[:self_at], *places[self_at + 1 :]]
    if len(args) + 1 > len(places):
        return None
    given = {a.name: value for a, value in zip(places, (first, *args), strict=False)}
    given |= {
        ("self" if k == "input" and any(a.name == "self" for a in arguments) else k): v for k, v in kwargs.items()
    }
    known = {a.name: a for a in arguments}
    if set(given) - set(known):
        return None
    for name, value in given.items():
        kind = str(known[name].type)
        if isinstance(value, torch.Tensor) and "Tensor" not in kind:
            return None
        if not isinstance(value, torch.Tensor) and kind == "Tensor":
            return None
        if flat(value) and not isinstance(value, torch.Tensor) and "List" not in kind:
            return None
        if isinstance(value, (int, float)) and "Tensor" in kind:
            return None
    for name, argument in known.items():
        if name not in given:
            if not argument.has_default_value():
                return None
            given[name] = argument.default_value
    return {_plain(name): value for name, value in given.items()}


def _schemas(name: str) -> list[Any]:
    base = name.removeprefix("nn.functional.").replace("linalg.", "linalg_").replace("special.", "special_")
    base = base.replace("fft.", "fft_")
    found = torch._C._jit_get_schemas_for_operator(f"aten::{base}")
    found = [s for s in found if any("Tensor" in str(a.type) for a in s.arguments)]
    return sorted((s for s in found if not any(a.is_out for a in s.arguments)), key=str)


def _python_signature(name: str) -> inspect.Signature | None:
    owner, _, last = name.rpartition(".")
    holder = {"": torch, "nn.functional": F, "masked": torch.masked, "linalg": torch.linalg}.get(owner)
    for candidate in (f"_{last}", last) if owner == "nn.functional" else (last,):
        found = getattr(holder, candidate, None)
        if not inspect.isfunction(found):
            continue
        signature = inspect.signature(found)
        if not any(p.kind == p.VAR_POSITIONAL for p in signature.parameters.values()):
            return signature
    return None


def options(bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments whose value may decide what is saved: flags, words, telling numbers; None for any other value."""

    def telling(name: str, value: Any) -> Any:
        if isinstance(value, (bool, str)):
            return value
        if name in NUMBERS and isinstance(value, (int, float)):
            return value if math.isfinite(value) else str(value)
        return None

    ignored = ("inplace", "equation", "input")
    return {name: telling(name, value) for name, value in bound.items() if name not in ignored and not flat(value)}


def database_samples(op: Any, signature: Signature, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of one entry of the op database, as calls by formal names."""
    made = op.sample_inputs("cpu", dtype, requires_grad=True)
    for sample in islice(made, PER_ENTRY):
        bound = signature.bind(sample.input, tuple(sample.args), dict(sample.kwargs))
        yield rebuilt(op, signature, sample, bound)


def rebuilt(op: Any, signature: Signature, sample: Any, bound: dict[str, Any]) -> Sample:
    """A sample whose tensors can be replaced by name."""
    tensors = {name: value for name, value in bound.items() if flat(value)}
    by_identity = {id(value): name for name, value in tensors.items()}

    def call_with(function: Callable[..., Any]) -> Callable[[Tensors], Any]:
        def call(fresh: Tensors) -> Any:
            def swap(value: Any) -> Any:
                name = by_identity.get(id(value))
                return fresh[name] if name is not None else value

            kwargs = {k: swap(v) for k, v in sample.kwargs.items()}
            return function(swap(sample.input), *map(swap, sample.args), **kwargs)

        return call

    inplace = writer(op, signature)
    passed = {k for k, v in bound.items() if v is not None and k not in tensors and not isinstance(v, (bool, str))}
    passed &= signature.named(len(sample.args) + 1) | set(sample.kwargs)
    given = frozenset(passed)
    return Sample(call_with(op.op), tensors, options(bound), call_with(inplace) if inplace is not None else None, given)


def writer(op: Any, signature: Signature) -> Callable[..., Any] | None:
    """The in-place form of an operation of the database: a method, or a flag."""
    if op.inplace_variant is not None:
        return op.inplace_variant  # type: ignore[no-any-return]
    owner, _, last = op.name.rpartition(".")
    if owner != "nn.functional":
        return None
    if signature.python is not None and "inplace" in signature.python.parameters:
        return lambda *args, **kwargs: getattr(F, last)(*args, **{**kwargs, "inplace": True})
    return getattr(torch.Tensor, f"{last}_", None)


def _r(*shape: int) -> torch.Tensor:
    return torch.rand(shape) * 0.8 + 0.1


def extra_samples() -> Iterator[tuple[str, list[str], Sample]]:
    """(operation, its parameters, a sample) for what the database lacks or calls in another way."""

    def one(name: str, params: list[str], call: Callable[..., Any], tensors: Tensors, **opts: Any) -> Any:
        inplace = opts.pop("write", None)
        wrapped = (lambda t: inplace(**t)) if inplace else None
        return name, params, Sample(lambda t: call(**t), tensors, opts, wrapped)

    pair = ["input", "other"]
    mask = torch.tensor([[True, False, True], [False, True, False]])
    rows = torch.tensor([0, 1])
    yield one(
        "einsum",
        SIGNATURES["einsum"],
        lambda operands: torch.einsum("ij,jk->ik", *operands),
        {"operands": [_r(2, 3), _r(3, 4)]},
        operands="several",
    )
    yield one(
        "einsum",
        SIGNATURES["einsum"],
        lambda operands: torch.einsum("ij,ij->i", *operands),
        {"operands": [_r(2, 3), _r(2, 3)]},
        operands="several",
    )
    yield one(
        "einsum",
        SIGNATURES["einsum"],
        lambda operands: torch.einsum("ij->ji", *operands),
        {"operands": [_r(2, 3)]},
        operands="one",
    )
    item = SIGNATURES["__getitem__"]
    yield one("__getitem__", item, lambda input: input[0], {"input": _r(2, 3)}, index="basic")
    yield one("__getitem__", item, lambda input: input[:, 1:], {"input": _r(2, 3)}, index="basic")
    yield one("__getitem__", item, lambda input: input[..., None], {"input": _r(2, 3)}, index="basic")
    yield one(
        "__getitem__", item, lambda input, index: input[index], {"input": _r(2, 3), "index": rows}, index="advanced"
    )
    yield one(
        "__getitem__", item, lambda input, index: input[index], {"input": _r(2, 3), "index": mask}, index="advanced"
    )
    yield one("__getitem__", item, lambda input: input[[0, 1]], {"input": _r(2, 3)}, index="advanced")
    for name, call in _operators():
        yield one(name, pair, call, {"input": _r(3, 3), "other": _r(3, 3)})
        if name != "matmul":
            yield one(name, pair, lambda input, call=call: call(input, 2.0), {"input": _r(2, 3)})
            yield one(name, pair, lambda other, call=call: call(2.0, other), {"other": _r(2, 3)})
    squared = {"input": _r(2, 3)}
    yield one("pow", ["input", "exponent"], lambda input: input**2, squared, write=lambda input: input.pow_(2))
    yield one("pow", ["input", "exponent"], lambda exponent: torch.pow(2.0, exponent), {"exponent": _r(2, 3)})
    yield one("pow", ["input", "exponent"], torch.pow, {"input": _r(2, 3), "exponent": _r(2, 3)})
    only: list[tuple[str, Callable[..., Any]]] = [
        ("detach", lambda input: input.detach()),
        ("data", lambda input: input.data),
        ("contiguous", lambda input: input.contiguous()),
        ("contiguous", lambda input: input.t().contiguous()),
        ("to", lambda input: input.to(torch.float64)),
        ("to", lambda input: input.to(torch.float32)),
        ("cpu", lambda input: input.cpu()),
        ("type_as", lambda input: input.type_as(torch.ones(1))),
        ("type_as", lambda input: input.type_as(torch.ones(1).double())),
        ("numpy", lambda input: torch.from_numpy(input.detach().numpy())),
        ("reshape", lambda input: input.t().reshape(-1)),
        ("flatten", lambda input: input.t().flatten()),
        ("ravel", lambda input: input.t().ravel()),
        ("view", lambda input: input.view(3, 2)),
        ("unflatten", lambda input: input.unflatten(0, (1, 2))),
        ("iter", lambda input: list(input)),
        ("tolist", lambda input: torch.tensor(input.tolist())),
        ("repeat_interleave", lambda input: input.repeat_interleave(2)),
    ]
    for name, call in only:
        yield one(name, ["input"], call, {"input": _r(2, 3)})
    look_up = {"input": rows, "weight": _r(4, 3)}
    yield one("nn.functional.embedding", ["input", "weight"], lambda input, weight: F.embedding(input, weight), look_up)
    for dims in (1, 2, 3):
        for size in (2, 3):
            convolve = getattr(F, f"conv{dims}d")
            yield one(
                f"nn.functional.conv{dims}d",
                ["input", "weight"],
                lambda input, weight, convolve=convolve: convolve(input, weight, padding="same"),
                {"input": _r(2, 3, *[6] * dims), "weight": _r(4, 3, *[size] * dims)},
                padding="same",
            )
    for training in (True, False):
        for name in DROPOUTS:
            call = getattr(F, name)
            yield one(
                f"nn.functional.{name}",
                ["input", "p", "training", "inplace"],
                lambda input, call=call, training=training: call(input, 0.5, training),
                {"input": _r(2, 3, 4, 4, 4) if "3d" in name else _r(2, 3, 4) if "1d" in name else _r(2, 3, 4, 4)},
                training=training,
                write=lambda input, call=call, training=training: call(input, 0.5, training, inplace=True),
            )


def _operators() -> list[tuple[str, Callable[..., Any]]]:
    return [
        ("add", lambda input, other: input + other),
        ("sub", lambda input, other: input - other),
        ("mul", lambda input, other: input * other),
        ("div", lambda input, other: input / other),
        ("remainder", lambda input, other: input % other),
        ("floor_divide", lambda input, other: input // other),
        ("matmul", lambda input, other: input @ other),
    ]


def write_samples() -> Iterator[tuple[str, list[str], Sample]]:
    """In-place methods that have no out-of-place form in the op database, and item assignment."""

    def one(name: str, params: list[str], write: Callable[..., Any], tensors: Tensors, **opts: Any) -> Any:
        return name, params, Sample(lambda t: write(**t), tensors, opts, lambda t: write(**t))

    alone: list[tuple[str, Callable[..., Any]]] = [
        ("zero_", lambda input: input.zero_()),
        ("fill_", lambda input: input.fill_(2.0)),
        ("fill_diagonal_", lambda input: input.fill_diagonal_(2.0)),
        ("normal_", lambda input: input.normal_()),
        ("uniform_", lambda input: input.uniform_()),
        ("random_", lambda input: input.random_()),
        ("exponential_", lambda input: input.exponential_()),
        ("cauchy_", lambda input: input.cauchy_()),
        ("geometric_", lambda input: input.geometric_(0.5)),
        ("log_normal_", lambda input: input.log_normal_()),
        ("bernoulli_", lambda input: input.bernoulli_(0.5)),
    ]
    for name, call in alone:
        yield one(name, ["input"], call, {"input": _r(2, 3)})
    yield one(
        "fill_", ["input", "value"], lambda input, value: input.fill_(value), {"input": _r(2, 3), "value": _r(1)[0]}
    )
    source = {"input": _r(2, 3), "src": _r(2, 3)}
    yield one("copy_", ["input", "src"], lambda input, src: input.copy_(src), source)
    item = SIGNATURES["__setitem__"]

    def assign(input: Any, value: Any = 0.0, index: Any = 0) -> Any:
        input[index] = value
        return input

    mask = torch.tensor([[True, False, True], [False, True, False]])
    rows = torch.tensor([0, 1])
    for opts, tensors in (
        ({"index": "basic"}, {"input": _r(2, 3)}),
        ({"index": "basic"}, {"input": _r(2, 3), "value": _r(3)}),
        ({"index": "advanced"}, {"input": _r(2, 3), "index": rows}),
        ({"index": "advanced"}, {"input": _r(2, 3), "index": rows, "value": _r(2, 3)}),
        ({"index": "advanced"}, {"input": _r(2, 3), "index": mask}),
        ({"index": "advanced"}, {"input": _r(2, 3), "index": mask, "value": _r(3)}),
    ):
        yield one("__setitem__", item, assign, tensors, **opts)


def module_samples() -> Iterator[tuple[str, Sample]]:
    """Every module, trained and not: its input, its parameters and its buffers are the arguments."""
    for name, build, inputs in _modules():
        for training in (True, False):
            module = build().train(training)
            state = dict(module.named_parameters()) | {n: b for n, b in module.named_buffers() if b.is_floating_point()}

            def call(tensors: Tensors, module: nn.Module = module, inputs: Any = inputs) -> Any:
                return module(*(tensors[n] for n in inputs))

            writing = None
            if "inplace" in inspect.signature(type(module).__init__).parameters:

                def writing(tensors: Tensors, module: Any = module, inputs: Any = inputs) -> Any:
                    module.inplace = True
                    try:
                        return module(*(tensors[n] for n in inputs))
                    finally:
                        module.inplace = False

            kind, _, setting = name.partition(" ")
            opts = {"training": training} | ({"batch_first": setting.endswith("True")} if setting else {})
            yield kind, Sample(call, {**inputs, **state}, opts, writing, owned=tuple(state))


def _modules() -> Iterator[tuple[str, Callable[[], nn.Module], Tensors]]:
    image, row, cube = {"input": _r(2, 4, 8, 8)}, {"input": _r(2, 4, 8)}, {"input": _r(2, 4, 6, 6, 6)}
    flat_ = {"input": _r(5, 4)}
    signed = {"input": torch.randn(5, 4)}
    by_dims = ((1, row), (2, image), (3, cube))
    yield "Linear", lambda: nn.Linear(4, 3), flat_
    yield "Bilinear", lambda: nn.Bilinear(4, 4, 3), {"input1": _r(5, 4), "input2": _r(5, 4)}
    yield "Identity", nn.Identity, flat_
    yield "Flatten", nn.Flatten, image
    yield "Unflatten", lambda: nn.Unflatten(1, (2, 2)), flat_
    for n, x in by_dims:
        yield f"Conv{n}d", lambda n=n: getattr(nn, f"Conv{n}d")(4, 3, 3), x
        yield f"ConvTranspose{n}d", lambda n=n: getattr(nn, f"ConvTranspose{n}d")(4, 3, 3), x
        yield f"BatchNorm{n}d", lambda n=n: getattr(nn, f"BatchNorm{n}d")(4), x
        yield f"InstanceNorm{n}d", lambda n=n: getattr(nn, f"InstanceNorm{n}d")(4, affine=True), x
        yield f"MaxPool{n}d", lambda n=n: getattr(nn, f"MaxPool{n}d")(2), x
        yield f"AvgPool{n}d", lambda n=n: getattr(nn, f"AvgPool{n}d")(2), x
        yield f"AdaptiveMaxPool{n}d", lambda n=n: getattr(nn, f"AdaptiveMaxPool{n}d")(2), x
        yield f"AdaptiveAvgPool{n}d", lambda n=n: getattr(nn, f"AdaptiveAvgPool{n}d")(2), x
        yield f"LPPool{n}d", lambda n=n: getattr(nn, f"LPPool{n}d")(2, 2), x
        yield f"Dropout{n}d", lambda n=n: getattr(nn, f"Dropout{n}d")(), x
        for kind in ("Reflection", "Replication", "Zero", "Circular"):
            yield f"{kind}Pad{n}d", lambda n=n, kind=kind: getattr(nn, f"{kind}Pad{n}d")(1), x
        yield f"ConstantPad{n}d", lambda n=n: getattr(nn, f"ConstantPad{n}d")(1, 0.5), x
    yield "FractionalMaxPool2d", lambda: nn.FractionalMaxPool2d(3, output_size=3), image
    yield "LayerNorm", lambda: nn.LayerNorm(4), flat_
    yield "GroupNorm", lambda: nn.GroupNorm(2, 4), image
    yield "LocalResponseNorm", lambda: nn.LocalResponseNorm(2), image
    yield "CrossMapLRN2d", lambda: nn.CrossMapLRN2d(2), image
    if hasattr(nn, "RMSNorm"):
        yield "RMSNorm", lambda: nn.RMSNorm(4), flat_
    yield "Dropout", nn.Dropout, flat_
    yield "AlphaDropout", nn.AlphaDropout, flat_
    yield "FeatureAlphaDropout", nn.FeatureAlphaDropout, image
    plain = (
        "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU "
    )
    plain += "SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"
    for name in plain.split():
        yield name, getattr(nn, name), signed
    yield "Threshold", lambda: nn.Threshold(0.1, 0.0), signed
    yield "GLU", nn.GLU, signed
    for name in ("Softmax", "LogSoftmax", "Softmin"):
        yield name, lambda name=name: getattr(nn, name)(dim=-1), signed
    yield "Softmax2d", nn.Softmax2d, image
    yield "PixelShuffle", lambda: nn.PixelShuffle(2), image
    yield "PixelUnshuffle", lambda: nn.PixelUnshuffle(2), image
    yield "ChannelShuffle", lambda: nn.ChannelShuffle(2), image
    yield "Upsample", lambda: nn.Upsample(scale_factor=2), image
    yield "UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), image
    yield "UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), image
    yield "Unfold", lambda: nn.Unfold(2), image
    yield "Fold", lambda: nn.Fold((3, 3), 2), {"input": _r(2, 4, 4)}
    index = {"input": torch.tensor([[0, 1], [2, 3]])}
    yield "Embedding", lambda: nn.Embedding(5, 3), index
    yield "EmbeddingBag", lambda: nn.EmbeddingBag(5, 3), index
    for name in ("RNN", "LSTM", "GRU"):
        for first in (True, False):
            yield (
                f"{name} batch_first={first}",
                lambda name=name, first=first: getattr(nn, name)(4, 3, batch_first=first),
                {"input": _r(2, 5, 4)},
            )
        state = {"hx": (_r(5, 3), _r(5, 3)) if name == "LSTM" else _r(5, 3)}
        yield f"{name}Cell", lambda name=name: getattr(nn, f"{name}Cell")(4, 3), flat_ | state
    attention = {"query": _r(2, 5, 4), "key": _r(2, 5, 4), "value": _r(2, 5, 4)}
    layer = {"input": _r(2, 5, 4)}
    for first in (True, False):
        yield (
            f"MultiheadAttention batch_first={first}",
            lambda first=first: nn.MultiheadAttention(4, 2, batch_first=first),
            attention,
        )
        yield (
            f"TransformerEncoderLayer batch_first={first}",
            lambda first=first: nn.TransformerEncoderLayer(4, 2, 8, batch_first=first),
            layer,
        )
    yield "CosineSimilarity", nn.CosineSimilarity, {"x1": _r(5, 4), "x2": _r(5, 4)}
    yield "PairwiseDistance", nn.PairwiseDistance, {"x1": _r(5, 4), "x2": _r(5, 4)}
    loss = {"input": _r(5, 4), "target": _r(5, 4)}
    losses = "L1Loss MSELoss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss SoftMarginLoss "
    losses += "MultiLabelSoftMarginLoss"
    for name in losses.split():
        yield name, getattr(nn, name), loss
    classes = {"input": _r(5, 4), "target": torch.tensor([0, 1, 2, 3, 0])}
    for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        yield name, getattr(nn, name), classes
    yield "MultiLabelMarginLoss", nn.MultiLabelMarginLoss, {"input": _r(5, 4), "target": torch.zeros(5, 4).long()}
    yield "HingeEmbeddingLoss", nn.HingeEmbeddingLoss, {"input": _r(5, 4), "target": torch.ones(5, 4)}
    yield "GaussianNLLLoss", nn.GaussianNLLLoss, loss | {"var": _r(5, 4)}
    sides = {"input1": _r(5, 4), "input2": _r(5, 4), "target": torch.ones(5)}
    yield "CosineEmbeddingLoss", nn.CosineEmbeddingLoss, sides
    yield "MarginRankingLoss", nn.MarginRankingLoss, {"input1": _r(5), "input2": _r(5), "target": torch.ones(5)}
    three = {"anchor": _r(5, 4), "positive": _r(5, 4), "negative": _r(5, 4)}
    yield "TripletMarginLoss", nn.TripletMarginLoss, three
    yield (
        "CTCLoss",
        nn.CTCLoss,
        {
            "log_probs": _r(6, 2, 4).log_softmax(-1),
            "targets": torch.tensor([[1, 2], [2, 3]]),
            "input_lengths": torch.tensor([6, 6]),
            "target_lengths": torch.tensor([2, 2]),
        },
    )
