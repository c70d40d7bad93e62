"""One loss that goes backward anew for each of several optimizers: once is enough, and all of them step after it."""

from __future__ import annotations

import ast

from outplace.repair.forms.step_order.lines import names_bound, whole_lines
from outplace.repair.forms.step_order.order import Order, Reordering, goes_backward
from outplace.repair.syntax.code import Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import reads


def backward_once(order: Order, loop: Loop) -> Reordering | None:
    """`for opt in optimizers: opt.zero_grad(); loss.backward(retain_graph=True); opt.step()`: each would have taken the
    same gradients as from one backward before the first step."""
    code = order.code
    if not isinstance(loop, ast.For) or loop.orelse or not whole_lines(code, loop):
        return None
    backwards = [one for one in loop.body if goes_backward(one)]
    if (
        not _can_be_asked_again(loop.iter)
        or len(backwards) != 1
        or order.backward is not backwards[0]
        or order.step not in loop.body
    ):
        return None
    here, names = loop.body.index(backwards[0]), names_bound(loop)
    before, after = loop.body[:here], loop.body[here + 1 :]
    if not after or not all(_is_call_of(one, "zero_grad", names) for one in before):
        return None
    if not all(_is_call_of(one, "step", names) for one in after) or any(reads(backwards[0], name) for name in names):
        return None
    call = backwards[0].value if isinstance(backwards[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or call.args or any(word.arg != "retain_graph" for word in call.keywords):
        return None
    indent, deeper = code.indent(loop), code.indent(loop.body[0])
    head = f"for {code.segment(loop.target)} in {code.segment(loop.iter)}:"
    rounds = [[head, *(deeper + code.segment(one) for one in part)] for part in (before, after)]
    lines = [*(rounds[0] if before else []), f"{code.segment(call.func)}()", *rounds[1]]
    text = f"\n{indent}".join(line.removeprefix(indent) for line in lines)
    return Reordering("Go backward once, for all optimizers", "earlier", [Edit(*code.span(loop), text)], plain=True)


def _can_be_asked_again(given: ast.expr) -> bool:
    """Does a second loop over it take the same?"""
    if isinstance(given, ast.Call):
        return isinstance(given.func, ast.Attribute) and given.func.attr in ("values", "items") and not given.args
    return isinstance(given, ast.Name | ast.Attribute | ast.Tuple | ast.List)


def _is_call_of(statement: ast.stmt, method: str, names: list[str]) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != method:
        return False
    return isinstance(call.func.value, ast.Name) and call.func.value.id in names
