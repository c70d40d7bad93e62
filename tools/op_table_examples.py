"""Finding an example call for each operation, and trying out what may be written after it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from outplace.knowledge.examples import PRELUDE, SETUPS, written

# Calls that no pattern finds: code, and which argument each variable is. `|` parts it from a set-up of its own.
BY_HAND: dict[str, tuple[str, dict[str, str], str]] = {}


def _hand(name: str, code: str, names: str, setup: str = "matrix") -> None:
    pairs = {variable: argument.replace("|", " ") for variable, argument in (p.split(":") for p in names.split())}
    BY_HAND[name] = (code, pairs, setup)


_X = "x = torch.rand(4, 4, requires_grad=True) * 0.8 + 0.1"
_INDEX = f"{_X}\nindex = torch.tensor([0, 2])"
_ROWS = f"{_X}\nindex = torch.tensor([[0, 2, 1, 3]])"
_MASK = f"{_X}\nmask = torch.eye(4, dtype=torch.bool)\nother = torch.rand(4, 4, requires_grad=True) * 1"
_CLASSES = f"{_X}\ntarget = torch.tensor([0, 1, 2, 3])"
_TARGET = f"{_X}\ntarget = torch.rand(4, 4)"
for dims, shape in ((1, "8"), (2, "8, 8"), (3, "6, 6, 6")):
    image = f"x = torch.rand(2, 4, {shape}, requires_grad=True) * 1"
    kernel = f"weight = torch.rand(3, 4, {', '.join('333'[:dims])}, requires_grad=True) * 1"
    other_way = f"weight = torch.rand(4, 3, {', '.join('333'[:dims])}, requires_grad=True) * 1"
    _hand(f"nn.functional.conv{dims}d", f"y = F.conv{dims}d(x, weight)", "x:input weight:weight", f"{image}\n{kernel}")
    _hand(
        f"nn.functional.conv_transpose{dims}d",
        f"y = F.conv_transpose{dims}d(x, weight)",
        "x:input weight:weight",
        f"{image}\n{other_way}",
    )
_WEIGHT = f"{_X}\nweight = torch.rand(4, requires_grad=True) * 1\nbias = torch.rand(4, requires_grad=True) * 1"
_STATS = f"{_WEIGHT}\nmean, var = torch.zeros(4), torch.ones(4)"
_hand("where", "y = torch.where(mask, x, other)", "mask:condition x:input other:other", _MASK)
_hand("masked_fill", "y = x.masked_fill(mask, 0.0)", "x:input mask:mask", _MASK)
_hand("masked_select", "y = x.masked_select(mask)", "x:input mask:mask", _MASK)
_hand("masked_scatter", "y = x.masked_scatter(mask, other)", "x:input mask:mask other:source", _MASK)
_hand("gather", "y = x.gather(0, index)", "x:input index:index", _ROWS)
_hand("scatter", "y = x.scatter(0, index, 1.0)", "x:input index:index", _ROWS)
_hand(
    "scatter_add", "y = x.scatter_add(0, index, other)", "x:input index:index other:src", _ROWS + "\nother = x[:1] * 2"
)
_hand("index_select", "y = x.index_select(0, index)", "x:input index:index", _INDEX)
_hand(
    "index_add", "y = x.index_add(0, index, other)", "x:input index:index other:source", _INDEX + "\nother = x[:2] * 2"
)
_hand("index_fill", "y = x.index_fill(0, index, 0.0)", "x:input index:index", _INDEX)
_hand("index_put", "y = x.index_put((index,), other)", "x:input other:values", _INDEX + "\nother = x[:2] * 2")
_hand("__getitem__", "y = x[index]", "x:input index:index", _INDEX)
_hand("__setitem__", "x[index] = 0.0", "x:input index:index", _INDEX)
_hand("copy_", "x.copy_(other)", "x:input other:src")
_hand("fill_", "x.fill_(2.0)", "x:input")
_hand("cat", "y = torch.cat([x, other])", "x:tensors other:tensors")
_hand("stack", "y = torch.stack([x, other])", "x:tensors other:tensors")
_hand("einsum", 'y = torch.einsum("ij,jk->ik", x, other)', "x:operands other:operands")
_hand(
    "bmm",
    "y = torch.bmm(x, other)",
    "x:input other:mat2",
    "x = torch.rand(2, 4, 4, requires_grad=True) * 1\nother = torch.rand(2, 4, 4, requires_grad=True) * 1",
)
_hand(
    "addmm",
    "y = torch.addmm(bias, x, other)",
    "bias:input x:mat1 other:mat2",
    SETUPS["matrix"] + "\nbias = torch.rand(4, requires_grad=True) * 1",
)
_hand(
    "addcmul", "y = torch.addcmul(x, x2, other)", "x:input x2:tensor1 other:tensor2", SETUPS["matrix"] + "\nx2 = x * 2"
)
_hand("lerp", "y = torch.lerp(x, other, 0.5)", "x:input other:end")
_hand("pow", "y = x ** 2", "x:input")
_hand("topk", "y, indices = x.topk(2)", "x:input indices:result|1")
_hand("sort", "y, indices = x.sort()", "x:input indices:result|1")
_hand("max", "y = x.max()", "x:input")
_hand("min", "y = x.min()", "x:input")
_hand("norm", "y = torch.norm(x)", "x:input")
_hand("split", "y, rest = x.split(2)", "x:tensor")
_hand("chunk", "y, rest = x.chunk(2)", "x:input")
_hand("unbind", "y, *rest = x.unbind()", "x:input")
for inplace, args, names, setup in (
    ("masked_fill_", "mask, 0.0", "x:input mask:mask", _MASK),
    ("masked_scatter_", "mask, other", "x:input mask:mask other:source", _MASK),
    ("index_fill_", "0, index, 0.0", "x:input index:index", _INDEX),
    ("index_add_", "0, index, other", "x:input index:index other:source", _INDEX + "\nother = x[:2] * 2"),
    ("index_copy_", "0, index, other", "x:input index:index other:source", _INDEX + "\nother = x[:2] * 2"),
    ("index_put_", "(index,), other", "x:input other:values", _INDEX + "\nother = x[:2] * 2"),
    ("scatter_", "0, index, 1.0", "x:input index:index", _ROWS),
    ("scatter_add_", "0, index, other", "x:input index:index other:src", _ROWS + "\nother = x[:1] * 2"),
    ("lerp_", "other, 0.5", "x:input other:end", "matrix"),
    ("addcmul_", "other, other", "x:input other:tensor1", "matrix"),
    ("addcdiv_", "other, other", "x:input other:tensor2", "matrix"),
    ("addmm_", "other, other", "x:input other:mat1", "matrix"),
):
    _hand(inplace, f"x.{inplace}({args})", names, setup)
_hand(
    "nn.functional.linear",
    "y = F.linear(x, weight, bias)",
    "x:input weight:weight bias:bias",
    _WEIGHT.replace("weight = torch.rand(4,", "weight = torch.rand(4, 4,"),
)
_hand("nn.functional.layer_norm", "y = F.layer_norm(x, (4,), weight, bias)", "x:input weight:weight bias:bias", _WEIGHT)
_hand("nn.functional.group_norm", "y = F.group_norm(x, 2, weight, bias)", "x:input weight:weight bias:bias", _WEIGHT)
_hand("nn.functional.rms_norm", "y = F.rms_norm(x, (4,), weight)", "x:input weight:weight", _WEIGHT)
_hand(
    "nn.functional.batch_norm",
    "y = F.batch_norm(x, mean, var, weight, bias, training=True)",
    "x:input mean:running_mean var:running_var weight:weight bias:bias",
    _STATS,
)
_hand("nn.functional.embedding", "y = F.embedding(index, x)", "index:input x:weight", _INDEX)
_hand("nn.functional.prelu", "y = F.prelu(x, weight)", "x:input weight:weight", _WEIGHT)
_hand("nn.functional.cross_entropy", "y = F.cross_entropy(x, target)", "x:input target:target", _CLASSES)
_hand("nn.functional.nll_loss", "y = F.nll_loss(x, target)", "x:input target:target", _CLASSES)
for loss in (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
):
    _hand(f"nn.functional.{loss}", f"y = F.{loss}(x, target)", "x:input target:target", _TARGET)
_hand("nn.functional.softmax", "y = F.softmax(x, dim=-1)", "x:input")
_hand("nn.functional.log_softmax", "y = F.log_softmax(x, dim=-1)", "x:input")
_hand(
    "nn.functional.scaled_dot_product_attention",
    "y = F.scaled_dot_product_attention(q, k, v)",
    "q:query k:key v:value",
    "q, k, v = (torch.rand(2, 2, 5, 4, requires_grad=True) * 1 for _ in range(3))",
)
_hand("nn.functional.interpolate", "y = F.interpolate(x, scale_factor=2)", "x:input", "image")
_hand("nn.Embedding", "y = m(index)", "index:input", "index = torch.tensor([0, 2])")
for loss in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
    _hand(f"nn.{loss}", "y = m(x, target)", "x:input target:target", _CLASSES)
for loss in (
    "MSELoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "KLDivLoss",
    "PoissonNLLLoss",
    "SoftMarginLoss",
):
    _hand(f"nn.{loss}", "y = m(x, target)", "x:input target:target", _TARGET)
_hand(
    "nn.MultiheadAttention",
    "y, _ = m(q, k, v)",
    "q:query k:key v:value",
    "q, k, v = (torch.rand(2, 5, 4, requires_grad=True) * 1 for _ in range(3))",
)

CONSTRUCTORS = (
    "",
    "4",
    "2",
    "4, 3",
    "4, 2",
    "4, 3, 3",
    "2, 4",
    "1",
    "dim=-1",
    "1, 0.5",
    "0.1, 0.0",
    "2, 2",
    "1, (2, 2)",
)


def find(name: str, params: list[str], inplace: str | None) -> dict[str, Any] | None:
    """An example for an operation (or for its in-place form): a call that runs, and what may be written after it."""
    tried: Iterator[tuple[str, dict[str, str], str, str | None]]
    if inplace is not None:
        tried = _inplace_calls(name, params, inplace)
    elif name.startswith("nn.") and not name.startswith("nn.functional."):
        tried = _module_calls(name, params)
    elif name in BY_HAND:
        tried = iter([(*BY_HAND[name], None)])
    else:
        tried = _calls(name, params)
    for code, variables, setup, module in tried:
        full = SETUPS.get(setup, setup) if module is None else f"m = {module}\n{SETUPS.get(setup, setup)}"
        out = "y" if code.startswith(("y =", "y,")) else "x"
        if not _runs(full, code, out, None):
            continue
        targets = [v for v in ("y", *variables) if v != "y" or out == "y"]
        outcome = {v: _runs(full, code, out, v) for v in targets}
        example: dict[str, Any] = {"code": code, "vars": variables, "setup": setup}
        if module is not None:
            example["module"] = module
        if fine := next((v for v in targets if outcome[v] is True), None):
            example["may"] = fine
        if bad := next((v for v in targets if outcome[v] is False), None):
            example["not"] = bad
        return example if fine or bad else None
    return None


def _runs(setup: str, code: str, out: str, write: str | None) -> bool | None:
    """True if backward works, False if it says a tensor was modified in place, None if something else is wrong."""
    scope: dict[str, Any] = {}
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            exec(f"{PRELUDE}\n{setup}\n{code}", scope)
            if not isinstance(scope[out], torch.Tensor) or not scope[out].numel() or scope[out].grad_fn is None:
                return None
            if write is not None:
                exec(written(write), scope)
            exec(f"{out}.sum().backward()", scope)
    except RuntimeError as error:
        told = str(error)
        return False if "modified by an inplace operation" in told or "modified inplace" in told else None
    except Exception:
        return None
    return True


def _spelled(name: str) -> str:
    return "F." + name.removeprefix("nn.functional.") if name.startswith("nn.functional.") else f"torch.{name}"


def _calls(name: str, params: list[str]) -> Iterator[tuple[str, dict[str, str], str, str | None]]:
    formal = [p.split("|")[0].strip("*") for p in params]
    first = formal[0] if formal else "input"
    second = formal[1] if len(formal) > 1 else first
    own = "input" if "input" in formal else first
    rest = next((name for name in formal if name != own), second)
    function, method = _spelled(name), f"x.{name.rpartition('.')[2]}"
    patterns = [
        (f"{function}(x)", 1),
        (f"{function}(x, other)", 2),
        (f"{method}()", 1),
        (method, 1),
        (f"{method}(other)", 2),
    ]
    patterns += [
        (f"{function}(x, {args})", 1)
        for args in ("1", "dim=1", "2", "0, 1", "(4, 4)", "2.0", "0, 0, 2", "0.1, 0.5", "(1, 1)")
    ]
    patterns += [(f"{method}({args})", 1) for args in ("1", "4, 4", "(16,)", "torch.float64")]
    patterns += [(f"{function}([x, other])", 2), (f"{function}(x[0], other[0])", 2), (f"{function}(x, other[0])", 2)]
    patterns += [(f"{function}(x, index=torch.tensor([0, 2]))", 1)]
    patterns += [(f"{method}(0, 2, 1)", 1), (f"{function}(x, (1, 0))", 1), (f"{function}(x[:, :3], other[:, :3])", 2)]
    for setup, (code, count), out in product(SETUPS, patterns, ("y", "y, *rest")):
        if setup != "matrix" and count == 2:
            continue
        called = (own, rest) if code.startswith(method) else (first, first if "[x, other]" in code else second)
        variables = dict(zip(("x", "other")[:count], called, strict=False))
        yield f"{out} = {code}", variables, setup, None


def _inplace_calls(name: str, params: list[str], inplace: str) -> Iterator[tuple[str, dict[str, str], str, str | None]]:
    if name.startswith("nn.") and not name.startswith("nn.functional."):
        constructors = (inplace.replace("(", f"({args}, " if args else "(") for args in CONSTRUCTORS)
        for constructor, setup in product(constructors, SETUPS):
            yield "y = m(x)", {"x": "input"}, setup, constructor
        return
    if inplace in BY_HAND:
        code, variables, setup = BY_HAND[inplace]
        yield code, variables, setup, None
        return
    second = params[1].split("|")[0] if len(params) > 1 else "other"
    if "(" in inplace:
        calls = [
            (f"y = {_spelled(name)}(x, inplace=True)", {"x": "input"}),
            (f"y = {_spelled(name)}(x, 0.1, 0.5, inplace=True)", {"x": "input"}),
        ]
    elif hasattr(torch.Tensor, inplace):
        calls = [(f"x.{inplace}()", {"x": "input"}), (f"x.{inplace}(other)", {"x": "input", "other": second})]
        calls += [(f"x.{inplace}({rest})", {"x": "input"}) for rest in ("1", "2.0", "0, 1", "0.1, 0.5", "0.5")]
    else:
        calls = [(f"y = {_spelled(inplace)}(x{rest})", {"x": "input"}) for rest in ("", ", 0.5, True", ", 0.1, 0.5")]
    for (code, variables), setup in product(calls, ("matrix", "image")):
        yield code, variables, setup, None


def _module_calls(name: str, params: list[str]) -> Iterator[tuple[str, dict[str, str], str, str | None]]:
    constructors = [f"{name}({args})" for args in CONSTRUCTORS]
    if name in BY_HAND:
        for constructor in constructors:
            yield (*BY_HAND[name], constructor)
        return
    for setup, constructor in product(SETUPS, constructors):
        yield "y = m(x)", {"x": "input"}, setup, constructor
    for constructor in constructors:
        yield "y, _ = m(x)", {"x": "input"}, "row", constructor.replace("4, 3", "8, 3")
        if len(params) > 1:
            yield "y = m(x, other)", {"x": params[0], "other": params[1]}, "matrix", constructor
