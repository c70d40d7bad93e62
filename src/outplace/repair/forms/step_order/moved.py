"""The step itself moved: an update behind the backward, a step behind its loop."""

from __future__ import annotations

import ast

from outplace.repair.forms.backward_first import backward_first, needed, takes_gradients
from outplace.repair.forms.step_order.lines import (
    binds_within,
    end_of,
    names_bound,
    names_bound_within,
    pasted,
    whole_lines,
)
from outplace.repair.forms.step_order.order import Order, Reordering, only_steps
from outplace.repair.syntax.code import Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import reads


def before_the_update(order: Order) -> Reordering | None:
    """An average of weights, a clipping, a swap: it takes no gradient, so the backward can go before it. What comes
    after the update, and may need the new weights, still does."""
    earlier = backward_first(order.code, order.moment)
    return Reordering("Update after the backward", "gradients", earlier.edits, plain=earlier.plain) if earlier else None


def behind_the_backward(order: Order) -> Reordering | None:
    """The same where the backward stands in a block of its own: the update waits. Nothing that the backward does not
    need may stand between them: it would find the old weights."""
    code, update, backward = order.code, order.outer_step, order.outer_backward
    if not order.in_one_round or not (whole_lines(code, update) and whole_lines(code, backward)):
        return None
    block = code.block(update)
    between = block[block.index(update) + 1 : block.index(backward) + 1]
    names = {node.id for node in ast.walk(update) if isinstance(node, ast.Name)}
    if any(reads(one, name) for one in between for name in names_bound_within(update)):
        return None
    if any(binds_within(one, name) for one in between for name in names):
        return None
    if any(one not in needed(backward, between[:-1]) for one in between[:-1]) or takes_gradients(code, update):
        return None
    lines = code.lines[update.lineno - 1 : update.end_lineno]
    start, end = code.offset(update.lineno, 0), code.offset((update.end_lineno or 0) + 1, 0)
    edits = [Edit(start, end, ""), pasted(code, backward, lines)]
    return Reordering("Update after the backward", "gradients", edits)


def behind_the_loop(order: Order, loop: Loop) -> Reordering | None:
    """A step that comes too often: once, after the loop, with the gradients of all rounds."""
    code = order.code
    step = next((one for one in loop.body if one is order.step or order.step in ast.walk(one)), None)
    if step is None or loop.orelse or len(loop.body) < 2:
        return None
    older = order.moment.root_is_older
    if not older and not _sums_up(order, loop):
        return None
    body = "\n".join(code.segment(one) for one in loop.body)
    if "zero_grad" in body or not only_steps(step):
        return None  # a round's gradients are its own, or more than steps would be moved
    moved = [*_clipped_before(loop.body, step), step]
    outside = names_bound(loop) + [name for one in loop.body if one not in moved for name in names_bound_within(one)]
    if len(moved) == len(loop.body) or not all(whole_lines(code, one) for one in moved):
        return None
    if any(reads(one, name) for one in moved for name in outside):
        return None
    first, last = moved[0].lineno, step.end_lineno or 0
    start = code.offset(first, 0)
    deeper = len(code.indent(step)) - len(code.indent(loop))
    lines = [line[deeper:] if line.strip() else line for line in code.lines[first - 1 : last]]
    if loop.end_lineno == last:  # the step ends the loop: only its blanks change
        edits = [Edit(start, end_of(code, step), "\n".join(lines))]
    else:
        edits = [Edit(start, code.offset(last + 1, 0), ""), pasted(code, loop, lines)]
    return Reordering("Step once, after the loop", "beginning" if older else "earlier", edits)


def _sums_up(order: Order, loop: Loop) -> bool:
    """`opt.zero_grad()` before the loop, and each round keeps the graph for the next: all gradients are to be added."""
    block = order.code.block(loop)
    before = block[block.index(loop) - 1 :: -1] if loop in block[1:] else []
    cleared = any(".zero_grad(" in order.code.segment(one) for one in before[:2])
    return cleared and "retain_graph=True" in order.code.segment(order.backward)


def _clipped_before(body: list[ast.stmt], step: ast.stmt) -> list[ast.stmt]:
    """What bounds the gradients right before they are taken."""
    found: list[ast.stmt] = []
    for one in reversed(body[: body.index(step)]):
        call = one.value if isinstance(one, ast.Expr) else None
        if not isinstance(call, ast.Call) or "clip_grad" not in ast.unparse(call.func):
            break
        found.insert(0, one)
    return found
