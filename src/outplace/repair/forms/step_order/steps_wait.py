"""Moves the steps after the last backward that needs the old parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.forms.backward_first import backward_first, needed, takes_gradients
from outplace.repair.forms.step_order.lines import (
    binds_within,
    end_of,
    moved_behind,
    names_bound,
    names_bound_within,
    pasted,
    whole_lines,
)
from outplace.repair.forms.step_order.order import Order, Reordering, goes_backward, only_steps
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import binds, reads

_REFUSED = ("requires_grad", "DistributedDataParallel", "DDP(", "fully_shard", "GradScaler")
"""Calls that freeze weights or spread them over devices. A backward may then refuse the argument `inputs`."""


def together(order: Order) -> Iterator[Reordering]:
    """`g_loss.backward(inputs=list(G.parameters()))`, and then `opt_d.step()` and `opt_g.step()`."""
    code, block = order.code, order.code.block(order.outer_step)
    first = block.index(order.outer_step)
    backwards = [item for item in block[first:] if (loss := _loss(item)) and not _bound(block[first:], loss)]
    if order.outer_backward not in backwards:
        return
    last = block.index(backwards[-1])
    steps = [item for item in block[first:last] if only_steps(item)]
    trained = [_stepped_next(block[block.index(backward) :]) for backward in backwards]
    if None in trained or not all(whole_lines(code, item) for item in [*steps, backwards[-1]]):
        return
    given = [_weights(code, order.step, optimizer or "") for optimizer in trained]
    stay = [item for item in block[first:last] if item not in steps]
    waiting = [*map(str, trained), *(ast.unparse(ast.parse(argument)) for argument in given)]
    if steps[:1] != [order.outer_step] or not all(_may_stay(item, waiting) for item in stay):
        return
    ends = [code.span(backward)[1] - 1 for backward in backwards]
    calls = [
        backward.value
        for backward in backwards
        if isinstance(backward, ast.Expr) and isinstance(backward.value, ast.Call)
    ]
    edits = [
        Edit(end, end, f"{', ' if call.args or call.keywords else ''}inputs={weights}")
        for end, call, weights in zip(ends, calls, given, strict=True)
    ]
    title = "Step after the last backward, each of which trains what its own optimizer steps"
    way = Reordering(title, "steps", [*edits, *moved_behind(code, steps, backwards[-1])])
    if not order.moment.from_source:
        yield way  # a run will show whether each step uses the same gradients
        return
    training = Training(order)
    reached = {backward: training.parameters(_next_step(block, backward), "step") for backward in backwards}
    rest = [item for item in block if item not in steps]
    end = rest.index(backwards[-1]) + 1
    new_order = [*rest[:end], *steps, *rest[end:]]
    refused = any(word in code.text for word in _REFUSED)
    if training.keeps_steps(new_order, reached) and not refused:
        yield way


def _loss(statement: ast.stmt) -> str | None:
    """`loss` of `loss.backward()`, if the call has no `inputs`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return None
    says = any(keyword.arg in ("inputs", None) for keyword in call.keywords) or len(call.args) > 1
    plain = isinstance(call.func.value, ast.Name | ast.Attribute | ast.Subscript)
    return ast.unparse(call.func.value) if plain and not says else None


def _bound(statements: list[ast.stmt], path: str) -> bool:
    return any(binds(node, path) for statement in statements for node in ast.walk(statement))


def _may_stay(statement: ast.stmt, trained: list[str]) -> bool:
    """Does it neither run a network nor clear gradients that a moved step needs? Such statements stay in place."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if isinstance(call.func, ast.Attribute) and name == "zero_grad":
            cleared = ast.unparse(call.func.value)
            if cleared not in trained and f"list({cleared}.parameters())" not in trained:
                return False
        elif name not in ("backward", "print", "item", "append") and "clip_grad" not in name:
            return False
    return True


def _next_step(block: list[ast.stmt], backward: ast.stmt) -> ast.stmt:
    return next(item for item in block[block.index(backward) :] if isinstance(item, ast.Expr) and only_steps(item))


def _stepped_next(statements: list[ast.stmt]) -> str | None:
    """The optimizer that steps next."""
    for statement in statements:
        call = statement.value if isinstance(statement, ast.Expr) and only_steps(statement) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            return ast.unparse(call.func.value) if not call.args else None
    return None


def _weights(code: Code, step: ast.stmt, optimizer: str) -> str:
    """The parameters that an optimizer steps, as in its constructor, if those names exist here, too."""
    made = [node for node in code.every(ast.Assign) if ast.unparse(node.targets[0]) == optimizer]
    call = made[0].value if len(made) == 1 else None
    told = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if isinstance(told, ast.Call) and isinstance(told.func, ast.Attribute) and told.func.attr == "parameters":
        network = ast.unparse(told.func.value)
        kept = network.startswith("self.") and code.class_of(made[0]) is code.class_of(step)
        if kept or (network.isidentifier() and code.scope(made[0]) in (code.scope(step), code.tree)):
            return f"list({code.segment(told)})"
    return f'[weight for group in {optimizer}.param_groups for weight in group["params"]]'


def backward_once(order: Order, loop: Loop) -> Iterator[Reordering]:
    """One backward before the first step gives each optimizer the same gradients.

    `for opt in optimizers: opt.zero_grad(); loss.backward(retain_graph=True); opt.step()`
    """
    code = order.code
    if not isinstance(loop, ast.For) or loop.orelse or not whole_lines(code, loop):
        return
    backwards = [statement for statement in loop.body if goes_backward(statement)]
    if (
        not _can_be_asked_again(loop.iter)
        or len(backwards) != 1
        or order.backward is not backwards[0]
        or order.step not in loop.body
    ):
        return
    here, names = loop.body.index(backwards[0]), names_bound(loop)
    before, after = loop.body[:here], loop.body[here + 1 :]
    if not after or not all(_is_call_of(item, "zero_grad", names) for item in before):
        return
    if not all(_is_call_of(item, "step", names) for item in after) or any(reads(backwards[0], name) for name in names):
        return
    call = backwards[0].value if isinstance(backwards[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or call.args or any(word.arg != "retain_graph" for word in call.keywords):
        return
    indent, deeper = code.indent(loop), code.indent(loop.body[0])
    head = f"for {code.segment(loop.target)} in {code.segment(loop.iter)}:"
    rounds = [[head, *(deeper + code.segment(item) for item in part)] for part in (before, after)]
    lines = [*(rounds[0] if before else []), f"{code.segment(call.func)}()", *rounds[1]]
    text = f"\n{indent}".join(line.removeprefix(indent) for line in lines)
    yield Reordering("Go backward once, for all optimizers", "earlier", [Edit(*code.span(loop), text)], plain=True)


def _can_be_asked_again(given: ast.expr) -> bool:
    """Does a second loop over it give the same items?"""
    if isinstance(given, ast.Call):
        return isinstance(given.func, ast.Attribute) and given.func.attr in ("values", "items") and not given.args
    return isinstance(given, ast.Name | ast.Attribute | ast.Tuple | ast.List)


def _is_call_of(statement: ast.stmt, method: str, names: list[str]) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != method:
        return False
    return isinstance(call.func.value, ast.Name) and call.func.value.id in names


def update_waits(order: Order) -> Iterator[Reordering]:
    """Moves an update by hand after the backward."""
    yield from filter(None, (_before_the_update(order), _behind_the_backward(order)))


def _before_the_update(order: Order) -> Reordering | None:
    """An average of weights, a clipping, a swap: it uses no gradient, so the backward can go before it.

    Statements after the update, which may need the new weights, stay after it.
    """
    earlier = backward_first(order.code, order.moment)
    return Reordering("Update after the backward", "gradients", earlier.edits, plain=earlier.plain) if earlier else None


def _behind_the_backward(order: Order) -> Reordering | None:
    """The same if the backward is in a block of its own: the update moves.

    Only statements that the backward needs may be in between, because others would find the old weights.
    """
    code, update, backward = order.code, order.outer_step, order.outer_backward
    if not order.in_one_round or not (whole_lines(code, update) and whole_lines(code, backward)):
        return None
    block = code.block(update)
    between = block[block.index(update) + 1 : block.index(backward) + 1]
    names = {node.id for node in ast.walk(update) if isinstance(node, ast.Name)}
    if any(reads(item, name) for item in between for name in names_bound_within(update)):
        return None
    if any(binds_within(item, name) for item in between for name in names):
        return None
    if any(item not in needed(backward, between[:-1]) for item in between[:-1]) or takes_gradients(code, update):
        return None
    return Reordering("Update after the backward", "gradients", moved_behind(code, [update], backward))


def behind_the_loop(order: Order, loop: Loop) -> Iterator[Reordering]:
    """A step that runs too often: moves it after the loop, where it uses the gradients of all iterations."""
    code = order.code
    step = next(
        (statement for statement in loop.body if statement is order.step or order.step in ast.walk(statement)), None
    )
    if step is None or loop.orelse or len(loop.body) < 2:
        return
    older = order.moment.root_is_older
    if not older and not _sums_up(order, loop):
        return
    body = "\n".join(code.segment(statement) for statement in loop.body)
    if "zero_grad" in body or not only_steps(step):
        return  # each iteration clears its gradients, or more than steps would move
    moved = [*_clipped_before(loop.body, step), step]
    outside = names_bound(loop) + [
        name for statement in loop.body if statement not in moved for name in names_bound_within(statement)
    ]
    if len(moved) == len(loop.body) or not all(whole_lines(code, item) for item in moved):
        return
    if any(reads(item, name) for item in moved for name in outside):
        return
    first, last = moved[0].lineno, step.end_lineno or 0
    start = code.offset(first, 0)
    deeper = len(code.indent(step)) - len(code.indent(loop))
    lines = [line[deeper:] if line.strip() else line for line in code.lines[first - 1 : last]]
    if loop.end_lineno == last:  # the step is the last line of the loop: only its indentation changes
        edits = [Edit(start, end_of(code, step), "\n".join(lines))]
    else:
        edits = [Edit(start, code.offset(last + 1, 0), ""), pasted(code, loop, lines)]
    yield Reordering("Step once, after the loop", "beginning" if older else "earlier", edits)


def _sums_up(order: Order, loop: Loop) -> bool:
    """`opt.zero_grad()` before the loop, and each iteration retains the graph: are all gradients meant to be added?"""
    block = order.code.block(loop)
    before = block[block.index(loop) - 1 :: -1] if loop in block[1:] else []
    cleared = any(".zero_grad(" in order.code.segment(item) for item in before[:2])
    return cleared and "retain_graph=True" in order.code.segment(order.backward)


def _clipped_before(body: list[ast.stmt], step: ast.stmt) -> list[ast.stmt]:
    """The statements that clip the gradients right before the step."""
    found: list[ast.stmt] = []
    for statement in reversed(body[: body.index(step)]):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or "clip_grad" not in ast.unparse(call.func):
            break
        found.insert(0, statement)
    return found
