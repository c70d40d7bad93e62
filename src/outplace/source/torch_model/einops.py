"""einops: its patterns tell which results are views of the tensor, and which are copies."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from outplace.source.heuristics import is_batch
from outplace.source.torch_model.operations import run_op
from outplace.source.values import UNKNOWN, Args, Const, Items, Keywords, Outside, Partial, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_PART = re.compile(r"\(([^)]*)\)|(\S+)")
Axes = list[list[str]]
"""Of one side of a pattern: the axes of each dimension."""

_LAYERS = {"Rearrange": "rearrange", "Repeat": "repeat", "Reduce": "reduce", "EinMix": ""}
_REDUCTIONS = {"mean", "sum", "max", "min", "prod"}


def call(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """A call of something of einops, by its last name; None where nothing is known of it."""
    if name in _LAYERS:
        pattern = args[0] if args else keywords.get("pattern", UNKNOWN)
        rest = {"reduction": args[1]} if len(args) > 1 else {}
        return Partial(Outside(f"einops.{_LAYERS[name]}"), [], {**keywords, **rest, "pattern": pattern})
    run = {"rearrange": _rearrange, "repeat": _repeat, "reduce": _reduce, "einsum": _einsum, "pack": _pack}.get(name)
    if run is None or not args:
        return None
    return interpreter.each(args[0], lambda given: run(interpreter, [given, *args[1:]], keywords, node))


def _pattern(args: Args, keywords: Keywords) -> tuple[Axes, Axes] | None:
    argument = keywords.get("pattern", args[1] if len(args) > 1 else UNKNOWN)
    text = argument.value if isinstance(argument, Const) else None
    if not isinstance(text, str) or text.count("->") != 1:
        return None
    before, after = (_axes(side) for side in text.split("->"))
    return before, after


def _axes(side: str) -> Axes:
    return [(group.split() if single == "" else [single]) for group, single in _PART.findall(side)]


def _rearrange(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Splits, turns and joins dimensions: a view, unless dimensions are joined that do not lie side by side."""
    tensor, pattern = args[0], _pattern(args, keywords)
    if isinstance(tensor, Items):
        return run_op(interpreter, "stack", [tensor], {}, node, label="rearrange")
    if not isinstance(tensor, Tensor):
        return UNKNOWN
    if pattern is None:
        return run_op(interpreter, "reshape", [tensor, Plain()], {}, node, label="rearrange")
    return _laid_out(interpreter, tensor, *pattern, node)


def _laid_out(interpreter: Interpreter, tensor: Tensor, before: Axes, after: Axes, node: ast.AST) -> Tensor:
    tensor.known = True
    flat = [axis for dimension in before for axis in dimension]
    joined = [dimension for dimension in after if len(dimension) > 1]
    if all(_lie_together(dimension, flat) for dimension in joined):
        name = "permute" if _turns(flat, after) else "view"
        result = run_op(interpreter, name, [tensor, Plain()], {}, node, label="rearrange")
        if joined and isinstance(result, Tensor) and not (tensor.packed or _is_one_to_one(joined, before)):
            result.certain, result.view_sure, result.anchor = False, False, object()
    else:
        result = run_op(interpreter, "clone", [tensor], {}, node, label="rearrange")
        assert isinstance(result, Tensor)
        if tensor.view == "multi" and _copies_only_batches(joined, flat):
            result.view, result.view_sure = "multi", False
    assert isinstance(result, Tensor)
    result.shape = (None,) * len(after) if ["..."] not in after else None
    return result


def _turns(flat: list[str], after: Axes) -> bool:
    """Do the axes come in another order?"""
    order = [axis for dimension in after for axis in dimension]
    return [axis for axis in flat if axis in order] != [axis for axis in order if axis in flat]


def _lie_together(dimension: list[str], flat: list[str]) -> bool:
    places = [flat.index(axis) for axis in dimension if axis in flat and axis != "1"]
    return places == list(range(places[0], places[0] + len(places))) if places else True


def _copies_only_batches(joined: Axes, flat: list[str]) -> bool:
    """Is it a view after all, if the batch has one row: `b n (h d) -> (b h) n d`?"""
    apart = [dimension for dimension in joined if not _lie_together(dimension, flat)]
    return all(len(dimension) == 2 and is_batch(dimension[0]) for dimension in apart)


def _is_one_to_one(joined: Axes, before: Axes) -> bool:
    """Is what is joined what was one dimension before?"""
    return all(dimension in before for dimension in joined)


def _repeat(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """New axes are expanded, which makes a view; where they are joined with others it is a copy."""
    tensor, pattern = args[0], _pattern(args, keywords)
    if not isinstance(tensor, Tensor):
        return UNKNOWN
    if pattern is None:
        return run_op(interpreter, "clone", [tensor], {}, node, label="repeat")
    before, after = pattern
    own = {axis for dimension in before for axis in dimension}
    new = [dimension for dimension in after if any(axis not in own and axis != "1" for axis in dimension)]
    if any(len(dimension) > 1 for dimension in new):
        return run_op(interpreter, "clone", [tensor], {}, node, label="repeat")
    new_tensor = _laid_out(
        interpreter, tensor, before, [dimension for dimension in after if dimension not in new], node
    )
    if not new:
        return new_tensor
    sizes = [Plain() for _ in after]
    expanded = run_op(interpreter, "expand", [new_tensor, *sizes], {}, node, label="repeat")
    if isinstance(expanded, Tensor):
        expanded.shape, expanded.expanded = (None,) * len(after), True
    return expanded


def _reduce(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    tensor = args[0]
    if not isinstance(tensor, Tensor):
        return UNKNOWN
    how = keywords.get("reduction", args[2] if len(args) > 2 else UNKNOWN)
    name = how.value if isinstance(how, Const) and how.value in _REDUCTIONS else "mean"
    op = {"max": "amax", "min": "amin"}.get(name, name)
    result = run_op(interpreter, op, [tensor, Plain()], {}, node, label="reduce")
    if isinstance(result, Tensor):
        pattern = _pattern(args, keywords)
        result.shape = (None,) * len(pattern[1]) if pattern is not None else None
    return result


def _einsum(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`einops.einsum(a, b, "i j, j k -> i k")`: the pattern is the last."""
    return run_op(interpreter, "einsum", [args[-1], *args[:-1]], {}, node)


def _pack(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Joins tensors: a copy, and the shapes they had."""
    return Items([run_op(interpreter, "cat", [args[0]], {}, node, label="pack"), Plain()], "tuple")
