"""Several that are trained in turn, each with what the others have made: the others' part is detached."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.forms.step_order.lines import names_bound
from outplace.repair.forms.step_order.order import Order, Reordering
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import binds, reads


def others_detached(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Each round steps another one of several: its loss is not to train the others, whose part in it is detached."""
    code = order.code
    own = [] if isinstance(loop, ast.While) else names_bound(loop)
    if not any(reads(order.step, name) or reads(order.backward, name) for name in own):
        return
    for path, shape in order.moment.held.items():
        if shape != "list" or "." in path or any(binds(node, path) for node in ast.walk(loop)):
            continue
        rounds = [node for node in ast.walk(code.scope(loop)) if isinstance(node, ast.For) and _counter(node)]
        edits = [edit for one in rounds for edit in _detached_in(code, one, path)]
        if edits:
            yield Reordering(f"Detach the others in `{path}`: each loss trains its own part", "earlier", edits)


def _detached_in(code: Code, loop: ast.For, path: str) -> Iterator[Edit]:
    """In a loop that counts: all of the list but the one whose turn it is."""
    counter = _counter(loop)
    others = f"one if number == {counter} else one.detach() for number, one in enumerate({path})"
    for node in (node for one in loop.body for node in ast.walk(one) if isinstance(node, ast.expr)):
        if code.loops(node)[:1] != [loop]:
            continue
        if isinstance(node, ast.Starred) and ast.unparse(node.value) == path:
            yield code.replaced(node.value, f"({others})")
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]) == path and _joins(node):
            yield code.replaced(node.args[0], f"[{others}]")
        elif isinstance(node, ast.Call) and counter in map(ast.unparse, node.args):  # `self.imitation(logits, i)`
            yield from (code.replaced(arg, f"[{others}]") for arg in node.args if ast.unparse(arg) == path)
        elif _is_another(node, path, counter):
            end = code.span(node)[1]
            yield Edit(end, end, ".detach()")


def _counter(loop: Loop) -> str:
    """`i` of `for i in range(n)` and `for i, one in enumerate(all)`."""
    if isinstance(loop, ast.While) or not isinstance(loop.iter, ast.Call):
        return ""
    name, target = ast.unparse(loop.iter.func), loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    return target.id if name in ("range", "enumerate") and isinstance(target, ast.Name) else ""


def _joins(call: ast.Call) -> bool:
    return ast.unparse(call.func).split(".")[-1] in ("cat", "stack", "concat", "concatenate")


def _is_another(node: ast.expr, path: str, counter: str) -> bool:
    """`all[1 - i]` and `all[j]`, beside `all[i]`."""
    item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == path
    return item and ast.unparse(node.slice) != counter and not isinstance(node.slice, ast.Slice)  # type: ignore[attr-defined]
