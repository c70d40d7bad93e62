"""Parts that may be written: `x[i]` instead of the items of `for row in x`, a range instead of a part of a chunk."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NamedTuple

from outplace.knowledge.ops import lookup
from outplace.repair.facts.aliases import gives_several_views
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import bindings, binds, reads


@dataclass(frozen=True)
class _Source:
    """The tensor that is iterated, its dimension, and the expression that returns the views."""

    tensor: ast.expr
    iterable: ast.expr
    dim: str | None


def by_index(code: Code, statement: ast.stmt, name: str) -> list[Edit] | None:
    """The edits of the loop that binds `name`; None if it is not such a loop."""
    for loop in code.loops(statement):
        if isinstance(loop, ast.For) and binds(loop, name):
            return _loop(code, loop, name)
    return None


def by_range(code: Code, statement: ast.stmt, name: str) -> list[Edit] | None:
    """`a, b = x.chunk(2, 1)`: takes `b = x.narrow(1, a.size(1), b.size(1))` after it. That view may be written.

    It shows the same elements of the same memory: who reads `x` sees the write, as with any view. All parts that are
    read later are taken so: PyTorch refuses to read the others once `x` is written.
    """
    assigned = list(bindings(code, statement, name))
    binding = assigned[0] if len(assigned) == 1 else None
    parting = _parting(binding) if isinstance(binding, ast.Assign) and code.begins_line(binding) else None
    if not isinstance(binding, ast.Assign) or parting is None or name not in parting.names:
        return None
    text, names, edits = code.segment(parting.whole), parting.names, list[Edit]()
    if not isinstance(parting.whole, ast.Name | ast.Attribute) or text in names:
        text = code.fresh_name(binding, "whole")
        before = code.before(binding, f"{text} = {code.segment(parting.whole)}")
        edits = [before, code.replaced(parting.whole, text)] if before is not None else []
    end = code.offset((binding.end_lineno or binding.lineno) + 1, 0)
    ranges = [(part, _range(parting, names[:place], part)) for place, part in enumerate(names)]
    needed = [(part, item) for part, item in ranges if reads(code.scope(binding), part)]
    lines = "".join(f"{code.indent(binding)}{part} = {text}.{item}\n" for part, item in needed)
    return [*edits, Edit(end, end, lines)]


class _Parting(NamedTuple):
    """`a, b = x.chunk(2, 1)`: the function, `x`, the dimension, and the names of the parts."""

    function: str
    whole: ast.expr
    dim: str
    names: list[str]


def _parting(binding: ast.Assign) -> _Parting | None:
    """The call whose parts an assignment binds to plain names."""
    names = _unpacked(binding)
    call = binding.value if isinstance(binding.value, ast.Call) and gives_several_views(binding.value) else None
    whole = _parted(call) if call is not None else None
    dim = _dimension(call, whole) if call is not None and whole is not None else None
    if call is None or whole is None or dim is None or "" in names:
        return None
    return _Parting(called_name(call), whole, dim, names)


def _unpacked(binding: ast.Assign) -> list[str]:
    """`a` and `b` of `a, b = ...`; empty for what is no name."""
    target = binding.targets[0] if len(binding.targets) == 1 else None
    items = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    return [item.id if isinstance(item, ast.Name) else "" for item in items]


def _range(parting: _Parting, before: list[str], name: str) -> str:
    """The view that shows the same as the part of this name. `before`: the parts that come first."""
    dim = parting.dim
    if parting.function == "unbind":
        return f"select({dim}, {len(before)})"
    start = " + ".join(f"{other}.size({dim})" for other in before) or "0"
    return f"narrow({dim}, {start}, {name}.size({dim}))"


def _dimension(call: ast.Call, whole: ast.expr) -> str | None:
    """The dimension along which the parts lie; None if that is not shown."""
    told = [keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis")]
    arguments = [argument for argument in call.args if argument is not whole]
    told = told or (arguments if called_name(call) == "unbind" else arguments[1:])
    plain = not any(isinstance(argument, ast.Starred) for argument in arguments) and all(
        isinstance(item, ast.Constant | ast.UnaryOp | ast.Name | ast.Attribute) for item in told[:1]
    )
    if not plain or not _takes_dimension(called_name(call)):
        return None
    return ast.unparse(told[0]) if told else "0"


def _takes_dimension(name: str) -> bool:
    """Does the operation part a tensor along a dimension that it is given?"""
    operation = lookup(name)
    return operation is not None and "dim" in operation.params and any(item.out == "*" for item in operation.shares)


def _parted(call: ast.Call) -> ast.expr | None:
    """`x` of `x.split(2)` and of `torch.split(x, 2)`."""
    function = call.func
    if isinstance(function, ast.Attribute) and not is_library(function.value):
        return function.value
    return call.args[0] if call.args else None


def _loop(code: Code, loop: ast.For, name: str) -> list[Edit] | None:
    if loop.orelse or not loop.body or not code.begins_line(loop.body[0]) or loop.body[0].lineno == loop.lineno:
        return None
    position = _position(loop.target, name)
    if position is None:
        return None
    target, iterable = _find(loop, position)
    source = _source(iterable) if iterable is not None else None
    if target is None or source is None:
        return None
    held = source.tensor.value if isinstance(source.tensor, ast.Subscript) else source.tensor
    if any(binds(node, ast.unparse(held)) for inner in loop.body for node in ast.walk(inner)):
        return None
    tensor = code.segment(source.tensor)
    known = _counter(loop, source)
    index = known or code.fresh_name(loop, "i", "j", "k", "index")
    size = f"len({tensor})" if source.dim is None else f"{tensor}.size({source.dim})"
    item = f"{tensor}[{index}]" if source.dim is None else f"{tensor}.select({source.dim}, {index})"
    first = code.before(loop.body[0], f"{name} = {item}")
    if first is None:
        return None
    if known is not None and isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Tuple):
        return [code.replaced(loop.target, known), code.replaced(loop.iter, f"range({size})"), first]
    return [code.replaced(target, index), code.replaced(source.iterable, f"range({size})"), first]


def _position(target: ast.expr, name: str) -> tuple[int, ...] | None:
    """The path to a name inside a loop's target."""
    if isinstance(target, ast.Name):
        return () if target.id == name else None
    if isinstance(target, ast.Tuple | ast.List):
        for index, item in enumerate(target.elts):
            inner = _position(item, name)
            if inner is not None:
                return (index, *inner)
    return None


def _find(loop: ast.For, position: tuple[int, ...]) -> tuple[ast.expr | None, ast.expr | None]:
    """The corresponding parts of the target and of the iterable, through `zip` and `enumerate`."""
    target, iterable = loop.target, loop.iter
    for index in position:
        assert isinstance(target, ast.Tuple | ast.List)
        name = ast.unparse(iterable.func) if isinstance(iterable, ast.Call) else ""
        if name == "zip" and isinstance(iterable, ast.Call) and index < len(iterable.args) and not iterable.keywords:
            iterable = iterable.args[index]
        elif name == "enumerate" and isinstance(iterable, ast.Call) and index == 1 and len(iterable.args) == 1:
            iterable = iterable.args[0]
        else:
            return None, None
        target = target.elts[index]
    return target, iterable


def _source(iterable: ast.expr) -> _Source | None:
    tensor = iterable
    if isinstance(tensor, ast.Subscript) and isinstance(tensor.slice, ast.Constant | ast.Name):
        tensor = tensor.value
    if isinstance(tensor, ast.Name | ast.Attribute):
        return _Source(iterable, iterable, None)
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute) and iterable.func.attr == "unbind":
        arguments = [*iterable.args, *(keyword.value for keyword in iterable.keywords)]
        tensor = iterable.func.value
        if ast.unparse(tensor) == "torch" and arguments:
            tensor, arguments = arguments[0], arguments[1:]
        if isinstance(tensor, ast.Name | ast.Attribute) and len(arguments) <= 1:
            dim = ast.unparse(arguments[0]) if arguments else "0"
            return _Source(tensor, iterable, None if dim == "0" else dim)
    return None


def _counter(loop: ast.For, source: _Source) -> str | None:
    """`i` of `for i, row in enumerate(x)`."""
    if (
        isinstance(loop.iter, ast.Call)
        and ast.unparse(loop.iter.func) == "enumerate"
        and isinstance(loop.target, ast.Tuple)
    ):
        first = loop.target.elts[0]
        if loop.iter.args[0] is source.iterable and isinstance(first, ast.Name) and len(loop.iter.args) == 1:
            return first.id
    return None
