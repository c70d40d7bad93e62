"""A value of before the step that is used after it: made anew, or detached where it would train nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.forms.step_order.forward import made_last, remade, runs, uses
from outplace.repair.forms.step_order.lines import binds_within, lines_before, names_bound
from outplace.repair.forms.step_order.order import Order, Reordering, stepping
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.code import Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import reads


def made_anew(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Values that are made once, before the loop, and go backward in every round."""
    if not isinstance(loop, ast.While) and any(reads(order.step, name) for name in names_bound(loop)):
        return  # each round steps another optimizer: the rounds are not repetitions of one update
    used = [name for name in order.stale if any(uses(order.code, one, name) for one in loop.body)]
    names = [name for name in used if not any(binds_within(one, name) for one in loop.body)]
    if not names:
        return
    user = _first_reader(order, loop.body, names)
    run_inside = {ast.unparse(call) for one in loop.body for call in runs(order.code, one)}
    again = [name for name in names if run_inside & set(map(ast.unparse, _runs_behind(order, user, name)))]
    if again:  # made anew they would be what the rounds compare them with: PPO's old probabilities are no new ones
        edit = _detached_before(order, loop, names) if again == names else None
        if edit is not None:
            title = f"Detach {listed(names)} before the loop, whose rounds compute the same with their own weights"
            alone = order.moment.from_source and Training(order).rounds_are_separate()
            yield Reordering(title, "earlier", [edit], plain=alone)
        return
    made = remade(order.code, user, names, order.stale)
    edit = lines_before(order.code, user, made.lines) if made is not None else None
    if edit is not None:
        title = f"Make {listed(names)} anew in each round, with the weights of the round"
        yield Reordering(title, "earlier", [edit])


def _runs_behind(order: Order, at: ast.stmt, name: str) -> list[ast.Call]:
    """The networks that are run to make a value."""
    found: list[ast.Call] = []
    waiting, seen = [name], {name}
    while waiting:
        made = made_last(order.code, at, waiting.pop())
        inputs = {node.id for node in ast.walk(made.value) if isinstance(node, ast.Name)} if made is not None else set()
        found += runs(order.code, made) if made is not None else []
        waiting += sorted((inputs & set(order.stale)) - seen)
        seen |= inputs
    return found


def _detached_before(order: Order, loop: Loop, names: list[str]) -> Edit | None:
    """Lines before the outermost loop that goes on with what was made before it."""
    outside = [one for one in order.code.loops(order.step) if not any(binds_within(one, name) for name in names)]
    return lines_before(order.code, (outside or [loop])[-1], [f"{name} = {name}.detach()" for name in names])


def used_again(order: Order, unused: bool = False) -> Iterator[Reordering]:
    """`d_fake` goes into the loss of the step, and then into the next one: cut off, where nothing but what has just
    been stepped would be trained by it; else made anew. `unused` says that such gradients are surely thrown away."""
    block = order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    used = [name for name in order.stale if any(uses(order.code, one, name) for one in after)]
    names = [name for name in used if not any(binds_within(one, name) for one in after)]
    if not names:
        return
    cut = [] if trains_again(order) else [one for one in order.moment.for_the_step if "." not in one]
    user = _first_reader(order, after, names)
    if all(name in cut for name in names):
        title = f"Detach {listed(names)}: this loss is not to train what has just been stepped"
        yield Reordering(title, "earlier", _detached(order, after, names), plain=unused)
        return
    if not any(name in cut for name in names):  # else some would be of the old weights, some of the new ones
        made = remade(order.code, user, names, order.stale, cut)
        edit = lines_before(order.code, user, made.lines) if made is not None else None
        if made is not None and made.detached and edit is not None:
            given = f"{listed(made.detached)} detached"
            title = f"Make {listed(names)} anew from {given}: this loss is not to train what has just been stepped"
            yield Reordering(title, "earlier", [edit])
    made = remade(order.code, user, names, order.stale)
    edit = lines_before(order.code, user, made.lines) if made is not None else None
    if edit is not None:
        yield Reordering(f"Make {listed(names)} anew after the step, with the new weights", "earlier", [edit])


def _detached(order: Order, after: list[ast.stmt], names: list[str]) -> list[Edit]:
    nodes = [node for one in after for name in names for node in uses(order.code, one, name)]
    ends = [order.code.span(node)[1] for node in nodes]
    return [Edit(end, end, ".detach()") for end in ends]


def _first_reader(order: Order, after: list[ast.stmt], names: list[str]) -> ast.stmt:
    """The statement that first goes on with the graph of one of them, inside the `with` blocks that it stands in."""

    def goes_on(statement: ast.stmt) -> bool:
        return any(uses(order.code, statement, name) for name in names)

    first = next(filter(goes_on, after))
    while isinstance(first, ast.With | ast.AsyncWith):
        inside = list(filter(goes_on, first.body))
        if not inside:
            break
        first = inside[0]
    return first


def listed(names: list[str]) -> str:
    """`a`, `b`"""
    return ", ".join(f"`{name}`" for name in names)


def cut_off(order: Order, unused: bool = False) -> Iterator[Reordering]:
    """Both losses were computed before the step: the later one without what only trains what has just been stepped."""
    code, block = order.code, order.code.block(order.outer_step)
    wanted = {node.id for node in ast.walk(order.outer_backward) if isinstance(node, ast.Name)}
    stepped = [path for path in order.moment.for_the_step if order.moment.held.get(path) == "tensor"]
    before = block[: block.index(order.outer_backward)]
    on_the_way: list[ast.stmt] = []
    edits: list[Edit] = []
    for statement in reversed(block[: block.index(order.outer_step)]):
        bound = names_bound(statement)
        if not isinstance(statement, ast.Assign) or not wanted.intersection(bound) or set(bound) & set(stepped):
            continue
        on_the_way.append(statement)
        if any(reads(one, name) for one in before if one not in on_the_way for name in bound):
            return  # the loss of the step is made from it, too
        cut = [node for name in stepped for node in uses(code, statement, name)]
        edits += [Edit(code.span(node)[1], code.span(node)[1], ".detach()") for node in cut]
        wanted |= {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    if edits:
        found = ", ".join(f"`{path}`" for path in stepped if path in wanted)
        title = f"Detach {found}: this loss is not to train what has just been stepped"
        yield Reordering(title, "earlier", edits, plain=unused)


def trains_again(order: Order) -> bool | None:
    """Does the optimizer that steps after the backward hold weights that have just been stepped? None: who knows."""
    if order.moment.from_source:
        return Training(order).trains_again()
    block = order.code.block(order.outer_backward)
    for statement in block[block.index(order.outer_backward) :]:
        for node in ast.walk(statement):
            optimizer = stepping(node) if isinstance(node, ast.Expr) else None
            if optimizer in order.moment.optimizers:
                return order.moment.optimizers[optimizer or ""]
    return None
