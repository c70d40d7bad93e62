"""Losses that are all computed before the first step: the steps wait for the last backward.

Each backward then accumulates only into what its own optimizer is to step, else one would add to what waits there for
its step. So every step takes what it would have taken if the step before had left the graph alone.
"""

from __future__ import annotations

import ast

from outplace.repair.forms.step_order.lines import pasted, whole_lines
from outplace.repair.forms.step_order.order import Order, Reordering, only_steps
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import binds

_REFUSED = ("requires_grad", "DistributedDataParallel", "DDP(", "fully_shard", "GradScaler")
"""Where weights are frozen or spread over devices, a backward may refuse to be told what to train."""


def steps_together(order: Order) -> Reordering | None:
    """`g_loss.backward(inputs=list(G.parameters()))`, and then `opt_d.step()` and `opt_g.step()`."""
    code, block = order.code, order.code.block(order.outer_step)
    first = block.index(order.outer_step)
    backwards = [one for one in block[first:] if (loss := _loss(one)) and not _bound(block[first:], loss)]
    if order.outer_backward not in backwards:
        return None
    last = block.index(backwards[-1])
    steps = [one for one in block[first:last] if only_steps(one)]
    trained = [_stepped_next(block[block.index(one) :]) for one in backwards]
    if None in trained or not all(whole_lines(code, one) for one in [*steps, backwards[-1]]):
        return None
    given = [_weights(code, order.step, optimizer or "") for optimizer in trained]
    stay = [one for one in block[first:last] if one not in steps]
    waiting = [*map(str, trained), *(ast.unparse(ast.parse(one)) for one in given)]
    if steps[:1] != [order.outer_step] or not all(_may_stay(one, waiting) for one in stay):
        return None
    edits = [Edit(code.offset(one.lineno, 0), code.offset((one.end_lineno or 0) + 1, 0), "") for one in steps]
    lines = [line for one in steps for line in code.lines[one.lineno - 1 : one.end_lineno]]
    ends = [code.span(one)[1] - 1 for one in backwards]
    calls = [one.value for one in backwards if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
    edits += [
        Edit(end, end, f"{', ' if call.args or call.keywords else ''}inputs={weights}")
        for end, call, weights in zip(ends, calls, given, strict=True)
    ]
    title = "Step after the last backward, each of which trains what its own optimizer steps"
    way = Reordering(title, "steps", [*edits, pasted(code, backwards[-1], lines)])
    if not order.moment.from_source:
        return way  # a run will show whether each step takes what it took
    training = Training(order)
    reached = {one: training.parameters(_next_step(block, one), "step") for one in backwards}
    after = block.index(backwards[-1])
    rest = [one for one in block if one not in steps]
    new_order = [*rest[: rest.index(block[after]) + 1], *steps, *rest[rest.index(block[after]) + 1 :]]
    refused = any(word in code.text for word in _REFUSED)
    return way if training.keeps_steps(new_order, reached) and not refused else None


def _loss(statement: ast.stmt) -> str | None:
    """`loss` of `loss.backward()`, which does not say what it is to train."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return None
    says = any(keyword.arg in ("inputs", None) for keyword in call.keywords) or len(call.args) > 1
    plain = isinstance(call.func.value, ast.Name | ast.Attribute | ast.Subscript)
    return ast.unparse(call.func.value) if plain and not says else None


def _bound(statements: list[ast.stmt], path: str) -> bool:
    return any(binds(node, path) for one in statements for node in ast.walk(one))


def _may_stay(statement: ast.stmt, trained: list[str]) -> bool:
    """Does it neither run a network nor clear what waits for its step? Such statements keep their place."""
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
    return next(one for one in block[block.index(backward) :] if isinstance(one, ast.Expr) and only_steps(one))


def _stepped_next(statements: list[ast.stmt]) -> str | None:
    """The optimizer that steps next."""
    for statement in statements:
        call = statement.value if isinstance(statement, ast.Expr) and only_steps(statement) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            return ast.unparse(call.func.value) if not call.args else None
    return None


def _weights(code: Code, step: ast.stmt, optimizer: str) -> str:
    """What an optimizer steps: as it was told, where those names are known here, too."""
    made = [node for node in code.every(ast.Assign) if ast.unparse(node.targets[0]) == optimizer]
    call = made[0].value if len(made) == 1 else None
    told = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if isinstance(told, ast.Call) and isinstance(told.func, ast.Attribute) and told.func.attr == "parameters":
        network = ast.unparse(told.func.value)
        kept = network.startswith("self.") and code.class_of(made[0]) is code.class_of(step)
        if kept or (network.isidentifier() and code.scope(made[0]) in (code.scope(step), code.tree)):
            return f"list({code.segment(told)})"
    return f'[weight for group in {optimizer}.param_groups for weight in group["params"]]'
