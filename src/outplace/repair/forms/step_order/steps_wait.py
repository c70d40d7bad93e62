"""Moves the steps after the last backward that needs the old parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import takewhile

from outplace.repair.forms.backward_first import backward_first, needed, takes_gradients
from outplace.repair.forms.step_order.lines import (
    binds_within,
    end_of,
    moved_behind,
    names_bound,
    names_bound_within,
    pasted,
    text_of,
    whole_lines,
)
from outplace.repair.forms.step_order.order import Order, Reordering, goes_backward, only_steps, retains_graph
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, called_names, identifiers, method_call, only_call
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import binds, names_in, reads
from outplace.source.heuristics import clips_gradients

_REPEATABLE = {"zip", "enumerate", "range", "len", "list", "reversed", "sorted", "items", "values", "keys"}
"""Calls that make the items of a loop and change nothing."""
_REFUSE_INPUTS = {"requires_grad", "requires_grad_", "DistributedDataParallel", "DDP", "fully_shard", "GradScaler"}
"""What freezes weights or spreads them over devices. A backward may then refuse the argument `inputs`."""


def together(order: Order) -> Iterator[Reordering]:
    """`g_loss.backward(inputs=list(G.parameters()))`, and then `opt_d.step()` and `opt_g.step()`."""
    code, block = order.code, order.code.block(order.outer_step)
    rest = block[block.index(order.outer_step) :]
    backwards = [item for item in rest if _is_fixed(_loss(item), rest)]
    if order.outer_backward not in backwards:
        return
    between = rest[: rest.index(backwards[-1])]
    steps = [item for item in between if only_steps(item)]
    if order.outer_step not in steps or not all(whole_lines(code, item) for item in [*steps, backwards[-1]]):
        return
    optimizers = [_stepped_next(rest[rest.index(backward) :]) for backward in backwards]
    weights = [_weights(code, order.step, optimizer) for optimizer in optimizers if optimizer is not None]
    cleared = [*map(str, optimizers), *(ast.unparse(ast.parse(text)) for text in weights)]
    if None in optimizers or not all(item in steps or _may_stay(item, cleared) for item in between):
        return
    edits = [_with_inputs(code, backward, text) for backward, text in zip(backwards, weights, strict=True)]
    title = "Step after the last backward, each of which trains what its own optimizer steps"
    # A run shows whether each step uses the same gradients. Without one, the source must show it.
    if not order.moment.from_source or _keeps_gradients(order, steps, backwards):
        yield Reordering(title, "steps", [*edits, *moved_behind(code, steps, backwards[-1])])


def of_one_loss(order: Order) -> Iterator[Reordering]:
    """Both backwards are parts of one loss: all steps come after the last one, and take the sum of its gradients."""
    code, block = order.code, order.code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    between = block[first:last]
    steps = [item for item in between if only_steps(item)]
    if order.outer_step not in steps or not order.shares_graph or not order.moment.adds_up:
        return
    others = set().union(*(called_names(item) for item in between if item not in steps))
    if others & {"zero_grad", "step"} or not all(whole_lines(code, item) for item in [*steps, order.outer_backward]):
        return
    training = Training(order)
    stepped = training.parameters(order.outer_step, "step")
    plain = order.moment.from_source and order.moment.complete and training.clears_all_first()
    plain = plain and not any(training.parameters(item, "forward") & stepped for item in between)
    edits = moved_behind(code, steps, order.outer_backward)
    yield Reordering(
        "Let the steps wait for the last backward: both losses train what they share", "failed", edits, plain=plain
    )


def _with_inputs(code: Code, backward: ast.stmt, weights: str) -> Edit:
    """`loss.backward()` as `loss.backward(inputs=weights)`."""
    call, end = only_call(backward), code.span(backward)[1] - 1
    comma = ", " if call is not None and (call.args or call.keywords) else ""
    return Edit(end, end, f"{comma}inputs={weights}")


def _keeps_gradients(order: Order, steps: list[ast.stmt], backwards: list[ast.stmt]) -> bool:
    """Does the source show that each step uses the same gradients after the last backward?"""
    if identifiers(order.code.tree) & _REFUSE_INPUTS:
        return False
    training, block = Training(order), order.code.block(order.outer_step)
    reached = {backward: training.parameters(_next_step(block, backward), "step") for backward in backwards}
    rest = [item for item in block if item not in steps]
    end = rest.index(backwards[-1]) + 1
    return training.keeps_steps([*rest[:end], *steps, *rest[end:]], reached)


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
        if method_call(call, "zero_grad") is not None:
            if not _clears(call, cleared):
                return False
        elif called_name(call) not in ("backward", "print", "item", "append", "float") and not clips_gradients(call):
            return False
    return True


def _clears(node: ast.AST, owners: list[str]) -> bool:
    """Does it clear the gradients of one of these optimizers or lists of weights?"""
    clear = method_call(node, "zero_grad")
    owner = ast.unparse(clear.receiver) if clear is not None else None
    return owner is not None and (owner in owners or f"list({owner}.parameters())" in owners)


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


def backward_once(order: Order, loop: Loop) -> Iterator[Reordering]:
    """One backward before the first step gives each optimizer the same gradients.

    `for opt in optimizers: opt.zero_grad(); loss.backward(retain_graph=True); opt.step()`
    """
    code, call = order.code, only_call(order.backward)
    if not isinstance(loop, ast.For) or loop.orelse or not whole_lines(code, loop) or call is None:
        return
    if not _can_be_iterated_again(loop.iter) or not _clears_and_steps(order, loop):
        return
    if call.args or any(word.arg != "retain_graph" for word in call.keywords):
        return
    here = loop.body.index(order.backward)
    indent, deeper = code.indent(loop), code.indent(loop.body[0])
    head = f"for {code.segment(loop.target)} in {code.segment(loop.iter)}:"
    clears, steps = (
        [head, *(deeper + code.segment(item) for item in part)] for part in (loop.body[:here], loop.body[here + 1 :])
    )
    lines = [*(clears if here else []), f"{code.segment(call.func)}()", *steps]
    text = f"\n{indent}".join(line.removeprefix(indent) for line in lines)
    yield Reordering("Go backward once, for all optimizers", "earlier", [Edit(*code.span(loop), text)], plain=True)


def _clears_and_steps(order: Order, loop: ast.For) -> bool:
    """Does each iteration clear its own gradients, go backward through the same loss, and step its own optimizer?"""
    names = names_bound(loop)
    backwards = [statement for statement in loop.body if goes_backward(statement)]
    if backwards != [order.backward] or any(reads(order.backward, name) for name in names):
        return False
    here = loop.body.index(order.backward)
    before, after = loop.body[:here], loop.body[here + 1 :]
    clears = all(_is_call_of(item, "zero_grad", names) for item in before)
    return clears and order.step in after and all(_is_call_of(item, "step", names) for item in after)


def _can_be_iterated_again(items: ast.expr) -> bool:
    """Does a second loop over it give the same items?"""
    if isinstance(items, ast.Call):
        return method_call(items, "values", "items") is not None and not items.args
    return isinstance(items, ast.Name | ast.Attribute | ast.Tuple | ast.List)


def _is_call_of(statement: ast.stmt, method: str, names: list[str]) -> bool:
    """Does it call this method of one of these names?"""
    called = method_call(statement, method)
    return called is not None and isinstance(called.receiver, ast.Name) and called.receiver.id in names


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
    names = names_in(update)
    if any(reads(item, name) for item in between for name in names_bound_within(update)):
        return None
    if any(binds_within(item, name) for item in between for name in names):
        return None
    if any(item not in needed(backward, between[:-1]) for item in between[:-1]) or takes_gradients(code, update):
        return None
    return Reordering("Update after the backward", "gradients", moved_behind(code, [update], backward))


def behind_the_loop(order: Order, loop: Loop) -> Iterator[Reordering]:
    """A step that runs too often: moves it after the loop, where it uses the gradients of all iterations."""
    older = order.moment.root_is_older
    step = next((statement for statement in loop.body if order.step in ast.walk(statement)), None)
    if step is None or loop.orelse or not (older or _sums_up(order, loop)):
        return
    if "zero_grad" in called_names(loop) or not only_steps(step):
        return  # each iteration clears its gradients, or more than steps would move
    moved = [*_clipped_before(loop.body, step), step]
    if _may_leave(order.code, loop, moved):
        edits = _put_behind(order.code, loop, moved)
        plain = order.moment.from_source and _sums_up(order, loop) and _trains_on_what_it_is_given(order, loop, moved)
        yield Reordering("Step once, after the loop", "beginning" if older else "earlier", edits, plain=plain)


def in_a_second_loop(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Each iteration steps its own optimizer: the steps go into a second loop over the same items.

    `for name, loss in losses.items(): loss.backward(inputs=...); opts[name].step()`
    """
    step = next((statement for statement in loop.body if order.step in ast.walk(statement)), None)
    if not isinstance(loop, ast.For) or step is None or not only_steps(step) or not _is_named(loop.iter):
        return
    leaves = any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in ast.walk(loop))
    if loop.orelse or leaves or order.outer_backward not in loop.body or not whole_lines(order.code, loop):
        return
    moved = [*_clipped_before(loop.body, step), step]
    again = _made_of_items(loop, moved)
    if not _are_of_items(order.code, loop, moved, again):
        return
    plain = _can_be_iterated_again(loop.iter) and Training(order).keeps_steps_behind(loop)
    if not order.moment.from_source or plain:
        title = "Step in a second loop, after the last backward, each optimizer by its own gradients"
        yield Reordering(title, "steps", _put_behind(order.code, loop, moved, again), plain=plain)


def _are_of_items(code: Code, loop: ast.For, moved: list[ast.stmt], again: list[ast.stmt]) -> bool:
    """Do the moved statements read the items of the loop, and nothing else of an iteration but what `again` makes?"""
    used = [*again, *moved]
    made = {names_bound(item)[0] for item in again}
    bound = {name for item in loop.body if item not in moved for name in names_bound_within(item)} - made
    of_items = any(reads(item, name) for item in used for name in names_bound(loop))
    return (
        of_items
        and not any(reads(item, name) for item in used for name in bound)
        and all(whole_lines(code, item) for item in used)
    )


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


def _may_leave(code: Code, loop: Loop, moved: list[ast.stmt]) -> bool:
    """Can these statements move out of the loop: does something stay, and do they read no name of an iteration?"""
    stay = [statement for statement in loop.body if statement not in moved]
    names = names_bound(loop) + [name for statement in stay for name in names_bound_within(statement)]
    alone = all(whole_lines(code, item) for item in moved)
    return bool(stay) and alone and not any(reads(item, name) for item in moved for name in names)


def _put_behind(code: Code, loop: Loop, moved: list[ast.stmt], again: Sequence[ast.stmt] | None = None) -> list[Edit]:
    """Moves the lines of neighbouring statements of a loop after it, or into a second loop, which repeats `again`."""
    first, last = moved[0].lineno, moved[-1].end_lineno or 0
    start = code.offset(first, 0)
    deeper = 0 if again is not None else len(code.indent(moved[-1])) - len(code.indent(loop))
    lines = [line[deeper:] if line.strip() else line for line in code.lines[first - 1 : last]]
    if again is not None:
        head = code.lines[loop.lineno - 1 : loop.body[0].lineno - 1]
        while head[-1].strip().startswith("#") or not head[-1].strip():
            head.pop()
        lines = [*head, *text_of(code, again), *lines]
    if loop.end_lineno == last:  # they are the last lines of the loop
        return [Edit(start, end_of(code, moved[-1]), "\n".join(lines))]
    return [Edit(start, code.offset(last + 1, 0), ""), pasted(code, loop, lines)]


def _sums_up(order: Order, loop: Loop) -> bool:
    """`opt.zero_grad()` before the loop, and graphs that are older than it: are all gradients meant to be added?

    Each iteration retains the graph of all, or gets one from the items of the loop, as in a list of saved actions.
    """
    block = order.code.block(loop)
    before = block[block.index(loop) - 1 :: -1] if loop in block[1:] else []
    cleared = any("zero_grad" in called_names(item) for item in before[:2])
    return cleared and (retains_graph(order.backward) or _is_given_graphs(order, loop))


def _is_given_graphs(order: Order, loop: Loop) -> bool:
    """Does the loop hand out all values that its body reads and whose graph is older than the step?"""
    read = [name for name in order.moment.stale if any(reads(item, name) for item in loop.body)]
    return isinstance(loop, ast.For) and bool(read) and set(read) <= set(names_bound(loop))


def _trains_on_what_it_is_given(order: Order, loop: Loop, moved: list[ast.stmt]) -> bool:
    """Does no iteration run a network, so that it could not compute its loss with the weights of the last step?

    Nothing else steps there, such as a scheduler.
    """
    if any("step" in called_names(item) for item in loop.body if item not in moved):
        return False
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    events = [event for event in order.moment.events if event.line in lines]
    runs = any(event.kind not in ("backward", "step", "clip") for event in events)
    return order.moment.complete and _is_given_graphs(order, loop) and bool(events) and not runs


def _clipped_before(body: list[ast.stmt], step: ast.stmt) -> list[ast.stmt]:
    """The statements that clip the gradients right before the step."""
    before = reversed(body[: body.index(step)])
    clipping = takewhile(lambda item: (call := only_call(item)) is not None and clips_gradients(call), before)
    return list(clipping)[::-1]
