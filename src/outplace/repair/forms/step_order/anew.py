"""A value of before the step that is used after it: made anew, or detached where it would train nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from outplace.repair.code import Loop
from outplace.repair.edits import Edit
from outplace.repair.flow import bindings, binds, reads
from outplace.repair.forms.step_order.forward import is_forward, makings
from outplace.repair.forms.step_order.lines import binds_within, lines_before, names_bound
from outplace.repair.forms.step_order.order import Order, Reordering


def made_anew(order: Order, loop: Loop) -> Iterator[Reordering]:
    """A value that is made once, before the loop, and goes backward in every round."""
    code = order.code
    if not isinstance(loop, ast.While) and any(reads(order.step, name) for name in names_bound(loop)):
        return  # each round steps another optimizer: the rounds are not repetitions of one update
    for path, shape in order.moment.held.items():
        user = next((one for one in loop.body if reads(one, path)), None)
        inside = any(binds(node, path) for one in loop.body for node in ast.walk(one))
        if "." in path or shape != "tensor" or inside or user is None:
            continue
        for made in makings(code, loop, path):
            edit = lines_before(code, user, made)
            if edit is not None:
                title = f"Make `{path}` anew in each round, with the weights of the round"
                yield Reordering(title, "earlier", [edit])


def used_again(order: Order) -> Iterator[Reordering]:
    """`d_fake` goes into the loss of the step, and then into the next one: made anew; or cut off, where nothing but
    what has just been stepped would be trained by it."""
    code, moment = order.code, order.moment
    block = code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    after = block[first + 1 : last + 1]
    for path, shape in moment.held.items():
        user = next((one for one in after if reads(one, path)), None)
        bound_after = any(binds_within(one, path) for one in after)
        if "." in path or shape != "tensor" or user is None or bound_after:
            continue
        again = trains_again(order)
        if path in moment.for_the_step and not again:
            names = [n for n in ast.walk(user) if isinstance(n, ast.Name) and n.id == path]
            ends = [code.span(name)[1] for name in names if isinstance(name.ctx, ast.Load)]
            title = f"Detach `{path}`: this loss is not to train what has just been stepped"
            yield Reordering(title, "earlier", [Edit(end, end, ".detach()") for end in ends])
            continue
        if not again:
            yield from _made_from_detached(order, user, path)
        for made in makings(code, user, path):
            edit = lines_before(code, user, made)
            if edit is not None:
                yield Reordering(f"Make `{path}` anew after the step, with the new weights", "earlier", [edit])


def _made_from_detached(order: Order, user: ast.stmt, path: str) -> Iterator[Reordering]:
    """`d_z = disc(z)` once more, with `z.detach()`: what made `z` has just been stepped, and is not trained by this."""
    code, found = order.code, list(bindings(order.code, user, path))
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, ast.Assign) or not is_forward(code, made):
        return
    names = [node for node in ast.walk(made.value) if isinstance(node, ast.Name)]
    stepped = [node for node in names if node.id in order.moment.for_the_step]
    text, start = code.segment(made), code.span(made)[0]
    ends = sorted({code.span(node)[1] - start for node in stepped})
    parts = [text[one:other] for one, other in pairwise([0, *ends, len(text)])]
    edit = lines_before(code, user, [".detach()".join(parts)])
    if edit is not None and ends:
        given = ", ".join(f"`{name}`" for name in dict.fromkeys(node.id for node in stepped))
        title = f"Make `{path}` anew from {given} detached: this loss is not to train what has just been stepped"
        yield Reordering(title, "earlier", [edit])


def cut_off(order: Order) -> Iterator[Reordering]:
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
        names = [node for node in ast.walk(statement.value) if isinstance(node, ast.Name)]
        edits += [Edit(end, end, ".detach()") for n in names if n.id in stepped for end in [code.span(n)[1]]]
        wanted |= {name.id for name in names}
    if edits:
        found = ", ".join(f"`{path}`" for path in stepped if path in wanted)
        yield Reordering(f"Detach {found}: this loss is not to train what has just been stepped", "earlier", edits)


def trains_again(order: Order) -> bool:
    """Does the optimizer that steps after the backward hold weights that have just been stepped?"""
    block = order.code.block(order.outer_backward)
    for statement in block[block.index(order.outer_backward) :]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                return order.moment.optimizers.get(ast.unparse(node.func.value), False)
    return False
