"""Moves steps and updates after the last backward that needs the old parameters.

Where that would change the gradients of a step, each backward gets the parameters of its own optimizer as `inputs`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from outplace.repair.facts.bug import Bug, Keeps
from outplace.repair.forms.step_order.moments import statements_leading_to
from outplace.repair.forms.step_order.order import (
    Order,
    Reordering,
    clears,
    goes_backward,
    only_steps,
    retains_graph,
    takes_gradients,
)
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, called_names, identifiers, method_call, only_call
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, reads, reads_any
from outplace.repair.syntax.moves import (
    Move,
    names_bound,
    names_bound_within,
    needed,
    split_loop,
    whole_lines,
)
from outplace.source.heuristics import clips_gradients

_REPEATABLE = {"zip", "enumerate", "range", "len", "list", "reversed", "sorted", "items", "values", "keys"}
"""Calls that make the items of a loop and change nothing."""
_REFUSE_INPUTS = {"requires_grad", "requires_grad_", "DistributedDataParallel", "DDP", "fully_shard", "GradScaler"}
"""What freezes weights or spreads them over devices. A backward may then refuse the argument `inputs`."""


# -- in one block ------------------------------------------------------------------------------------------------------


def with_inputs(order: Order) -> Iterator[Reordering]:
    """`g_loss.backward(inputs=list(G.parameters()))`, and then `opt_d.step()` and `opt_g.step()`."""
    code, block = order.code, order.code.block(order.outer_step)
    rest = block[block.index(order.outer_step) :]
    backwards = [item for item in rest if _is_fixed(_loss(item), rest)]
    if order.outer_backward not in backwards:
        return
    between = rest[: rest.index(backwards[-1])]
    steps = [item for item in between if only_steps(item)]
    optimizers = [_stepped_next(rest[rest.index(backward) :]) for backward in backwards]
    weights = [_weights(code, order.step, optimizer) for optimizer in optimizers if optimizer is not None]
    cleared = [*map(str, optimizers), *(ast.unparse(ast.parse(text)) for text in weights)]
    stay = all(item in steps or _may_stay(item, cleared) for item in between)
    if order.outer_step not in steps or None in optimizers or not stay:
        return
    move = Move(code, steps, backwards[-1], after=True)
    edits = move.edits()
    # A run shows whether each step uses the same gradients. Without one, the source must show it.
    if edits is not None and (not order.moment.from_source or _keeps_gradients(order, move, backwards)):
        edits += [_with_inputs(code, backward, text) for backward, text in zip(backwards, weights, strict=True)]
        title = "Step after the last backward, each of which trains what its own optimizer steps"
        yield Reordering(title, "steps", edits)


def of_one_loss(order: Order) -> Iterator[Reordering]:
    """Both backwards are parts of one loss: all steps come after the last one, and take the sum of its gradients."""
    block = order.code.block(order.outer_step)
    between = block[block.index(order.outer_step) : block.index(order.outer_backward)]
    steps = [item for item in between if only_steps(item)]
    if order.outer_step not in steps or not order.shares_graph or not order.moment.adds_up:
        return
    others = set().union(*(called_names(item) for item in between if item not in steps))
    edits = Move(order.code, steps, order.outer_backward, after=True).edits()
    if others & {"zero_grad", "step"} or edits is None:
        return
    training = Training(order)
    stepped = training.parameters(order.outer_step, "step")
    plain = order.moment.from_source and order.moment.complete and training.clears_all_first()
    plain = plain and not any(training.parameters(item, "forward") & stepped for item in between)
    title = "Let the steps wait for the last backward: both losses train what they share"
    yield Reordering(title, "failed", edits, plain=plain)


def update_after_backward(order: Order) -> Iterator[Reordering]:
    """An average of weights, a clipping, a swap uses no gradient: the backward can go before it.

    Statements after the update, which may need the new weights, stay after it.
    """
    code, update = order.code, order.outer_step
    if not order.in_one_iteration or takes_gradients(code, update):
        return
    block = code.block(update)
    between = block[block.index(update) + 1 : block.index(order.outer_backward)]
    moved = [*needed(order.outer_backward, between), order.outer_backward]
    rest = [item for item in between if item not in moved]
    move, alone = Move(code, moved, update), isinstance(order.outer_backward, ast.Expr)
    edits = move.edits() if move.keeps_values() else None
    if edits is not None and (alone or not rest):
        plain = alone and all(map(clears, moved[:-1])) and not any(takes_gradients(code, item) for item in rest)
        yield Reordering("Update after the backward", "gradients", edits, plain=plain)


def update_before_the_forward(files: Files, bug: Bug) -> Iterator[Reordering]:
    """Weights are swapped for a look, and back, between a forward and the backward that a caller runs.

    If the weights are the same after it, the look can come before the forward. A run must show that.
    """
    forwards = [way for site, _ in bug.savers for way in statements_leading_to(files, site)]
    for code, update in statements_leading_to(files, bug.writes[0]):
        before = code.block(update)
        before = before[: before.index(update)]
        first = next((item for item in before if (code, item) in forwards), None)
        if first is None or takes_gradients(code, update):
            continue
        move = Move(code, [update], first)
        edits = move.edits() if move.keeps_values() else None
        if edits is not None:
            yield Reordering("Update before the forward", "all", edits, code.path)


def _with_inputs(code: Code, backward: ast.stmt, weights: str) -> Edit:
    """`loss.backward()` as `loss.backward(inputs=weights)`."""
    call, end = only_call(backward), code.span(backward)[1] - 1
    comma = ", " if call is not None and (call.args or call.keywords) else ""
    return Edit(end, end, f"{comma}inputs={weights}")


def _keeps_gradients(order: Order, move: Move, backwards: list[ast.stmt]) -> bool:
    """Does the source show that each step uses the same gradients after the last backward?"""
    if identifiers(order.code.tree) & _REFUSE_INPUTS:
        return False
    training, block = Training(order), order.code.block(order.outer_step)
    reached = {backward: training.parameters(_next_step(block, backward), "step") for backward in backwards}
    return training.keeps_steps(move.order, reached)


def _loss(statement: ast.stmt) -> str | None:
    """`loss` of `loss.backward()`, if the call has no `inputs`."""
    backward = method_call(statement, "backward")
    if backward is None or not isinstance(backward.receiver, ast.Name | ast.Attribute | ast.Subscript):
        return None
    call = backward.call
    has_inputs = any(keyword.arg in ("inputs", None) for keyword in call.keywords) or len(call.args) > 1
    return None if has_inputs else ast.unparse(backward.receiver)


def _is_fixed(path: str | None, statements: list[ast.stmt]) -> bool:
    """Is it a name that these statements do not bind?"""
    return path is not None and not any(binds(node, path) for item in statements for node in ast.walk(item))


def _may_stay(statement: ast.stmt, cleared: list[str]) -> bool:
    """Does it neither run a network nor clear gradients that a moved step needs? Such statements stay in place.

    `cleared`: the optimizers and the lists of weights whose gradients may be cleared.
    """
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        clear = method_call(call, "zero_grad")
        owner = ast.unparse(clear.receiver) if clear is not None else ""
        if clear is not None and not {owner, f"list({owner}.parameters())"} & {*cleared}:
            return False
        known = called_name(call) in ("zero_grad", "backward", "print", "item", "append", "float")
        if not known and not clips_gradients(call):
            return False
    return True


def _next_step(block: list[ast.stmt], backward: ast.stmt) -> ast.stmt:
    return next(item for item in block[block.index(backward) :] if isinstance(item, ast.Expr) and only_steps(item))


def _stepped_next(statements: list[ast.stmt]) -> str | None:
    """The optimizer that steps next."""
    step = next((step for item in statements if (step := method_call(item, "step")) is not None), None)
    return ast.unparse(step.receiver) if step is not None and not step.call.args else None


def _weights(code: Code, step: ast.stmt, optimizer: str) -> str:
    """The parameters that an optimizer steps, as in its constructor, if those names exist here, too."""
    assignments = [node for node in code.every(ast.Assign) if ast.unparse(node.targets[0]) == optimizer]
    constructor = only_call(assignments[0].value) if len(assignments) == 1 else None
    stepped = method_call(constructor.args[0], "parameters") if constructor is not None and constructor.args else None
    if stepped is not None:
        network = ast.unparse(stepped.receiver)
        of_object = network.startswith("self.") and code.class_of(assignments[0]) is code.class_of(step)
        if of_object or (network.isidentifier() and code.scope(assignments[0]) in (code.scope(step), code.tree)):
            return f"list({code.segment(stepped.call)})"
    return f'[weight for group in {optimizer}.param_groups for weight in group["params"]]'


# -- in a loop ---------------------------------------------------------------------------------------------------------


def one_backward_for_all(order: Order, loop: Loop) -> Iterator[Reordering]:
    """One backward before the first step gives each optimizer the same gradients.

    `for opt in optimizers: opt.zero_grad(); loss.backward(retain_graph=True); opt.step()`
    """
    code, call = order.code, only_call(order.backward)
    if not isinstance(loop, ast.For) or loop.orelse or not whole_lines(code, loop) or call is None:
        return
    plain_call = not call.args and all(word.arg == "retain_graph" for word in call.keywords)
    if not plain_call or not _can_be_iterated_again(loop.iter) or not _clears_and_steps(order, loop):
        return
    here = loop.body.index(order.backward)
    changed = {order.backward: f"{code.indent(order.backward)}{code.segment(call.func)}()"}
    edits = split_loop(code, loop, [loop.body[here : here + 1], loop.body[here + 1 :]], changed=changed)
    yield Reordering("Go backward once, for all optimizers", "earlier", edits, plain=True)


def _clears_and_steps(order: Order, loop: ast.For) -> bool:
    """Does each iteration clear its own gradients, go backward through the same loss, and step its own optimizer?"""
    names, here = names_bound(loop), loop.body.index(order.backward)
    calls = [(item, "zero_grad") for item in loop.body[:here]] + [(item, "step") for item in loop.body[here + 1 :]]
    own = (call is not None and ast.unparse(call.receiver) in names for call in itertools.starmap(method_call, calls))
    same_loss = goes_backward(order.backward) and not reads_any([order.backward], names)
    return same_loss and order.step in loop.body[here + 1 :] and all(own)


def _can_be_iterated_again(items: ast.expr) -> bool:
    """Does a second loop over it give the same items?"""
    if isinstance(items, ast.Call):
        return method_call(items, "values", "items") is not None and not items.args
    return isinstance(items, ast.Name | ast.Attribute | ast.Tuple | ast.List)


def after_the_loop(order: Order, loop: Loop) -> Iterator[Reordering]:
    """A step that runs too often: moves it after the loop, where it uses the gradients of all iterations."""
    older, moved = order.moment.loss_is_older, _steps_of(order, loop)
    if not moved or not (older or _accumulates(order, loop)) or "zero_grad" in called_names(loop):
        return  # each iteration clears its own gradients, or more than steps would move
    if _may_leave(order.code, loop, moved):
        plain = order.moment.from_source and _accumulates(order, loop) and _runs_no_network(order, loop, moved)
        keeps: Keeps = "beginning" if older else "earlier"
        yield Reordering("Step once, after the loop", keeps, split_loop(order.code, loop, [moved]), plain=plain)


def in_a_second_loop(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Each iteration steps its own optimizer: the steps go into a second loop over the same items.

    `for name, loss in losses.items(): loss.backward(inputs=...); opts[name].step()`
    """
    moved = _steps_of(order, loop)
    if not isinstance(loop, ast.For) or not moved or not _is_named(loop.iter):
        return
    leaves = any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in ast.walk(loop))
    if leaves or order.outer_backward not in loop.body or not whole_lines(order.code, loop):
        return
    again = _made_of_items(loop, moved)
    of_items = reads_any([*again, *moved], names_bound(loop))
    if not of_items or not _may_leave(order.code, loop, moved, again):
        return
    plain = _can_be_iterated_again(loop.iter) and Training(order).keeps_steps_behind(loop)
    if not order.moment.from_source or plain:
        title = "Step in a second loop, after the last backward, each optimizer by its own gradients"
        yield Reordering(title, "steps", split_loop(order.code, loop, [moved], again), plain=plain)


def _steps_of(order: Order, loop: Loop) -> list[ast.stmt]:
    """The statement of the loop that does nothing but step, with the clipping of gradients right before it."""
    step = next((statement for statement in loop.body if order.step in ast.walk(statement)), None)
    if step is None or loop.orelse or not only_steps(step):
        return []
    before = reversed(loop.body[: loop.body.index(step)])
    clipping = itertools.takewhile(lambda item: (call := only_call(item)) is not None and clips_gradients(call), before)
    return [*list(clipping)[::-1], step]


def _is_named(items: ast.expr) -> bool:
    """Is it made of names alone: `losses.items()`, `zip(nets, opts)`? A run shows whether it gives the same again."""
    calls = [node for node in ast.walk(items) if isinstance(node, ast.Call)]
    known = all(called_name(call) in _REPEATABLE for call in calls)
    return known and not any(isinstance(node, ast.GeneratorExp | ast.ListComp) for node in ast.walk(items))


def _made_of_items(loop: ast.For, moved: list[ast.stmt]) -> list[ast.stmt]:
    """`opt = opts[name]`: assignments of an iteration that the moved statements read, and that run nothing."""
    found: list[ast.stmt] = []
    for item in reversed(loop.body):
        single = isinstance(item, ast.Assign) and len(names_bound(item)) == 1
        if single and not called_names(item) and any(reads(other, names_bound(item)[0]) for other in [*moved, *found]):
            found.insert(0, item)
    return found


def _may_leave(code: Code, loop: Loop, moved: list[ast.stmt], again: list[ast.stmt] | None = None) -> bool:
    """Can these statements move out of the loop: does something stay, and do they read no name of an iteration?

    `again`: the assignments that a second loop over the same items repeats.
    """
    stay = [statement for statement in loop.body if statement not in moved]
    names = {name for item in stay for name in names_bound_within(item)} - {
        name for item in again or () for name in names_bound(item)
    }
    names.update(names_bound(loop) if again is None else ())
    gone = [*moved, *(again or ())]
    return bool(stay) and all(whole_lines(code, i) for i in gone) and not reads_any(gone, names)


def _accumulates(order: Order, loop: Loop) -> bool:
    """`opt.zero_grad()` before the loop, and graphs that are older than it: are all gradients meant to be added?

    Each iteration retains the graph of all, or gets one from the items of the loop, as in a list of saved actions.
    """
    block = order.code.block(loop)
    before = block[block.index(loop) - 1 :: -1] if loop in block[1:] else []
    cleared = any("zero_grad" in called_names(item) for item in before[:2])
    return cleared and (retains_graph(order.backward) or _iterates_over_graphs(order, loop))


def _iterates_over_graphs(order: Order, loop: Loop) -> bool:
    """Does the loop hand out all values that its body reads and whose graph is older than the step?"""
    read = [name for name in order.moment.stale if reads_any(loop.body, [name])]
    return isinstance(loop, ast.For) and bool(read) and set(read) <= set(names_bound(loop))


def _runs_no_network(order: Order, loop: Loop, moved: list[ast.stmt]) -> bool:
    """Does no iteration run a network, so that it could not compute its loss with the weights of the last step?

    Nothing else steps there, such as a scheduler.
    """
    if any("step" in called_names(item) for item in loop.body if item not in moved):
        return False
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    events = [event for event in order.moment.events if event.line in lines]
    runs = any(event.kind not in ("backward", "step", "clip") for event in events)
    return order.moment.complete and _iterates_over_graphs(order, loop) and bool(events) and not runs
