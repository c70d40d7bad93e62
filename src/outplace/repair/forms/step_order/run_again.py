"""Runs the forward again after the step, for the stale values only."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from outplace.repair.facts.attributes import is_built_once
from outplace.repair.facts.callees import functions_of, networks_within
from outplace.repair.forms.step_order.forward import Remade, is_forward, made_last, remade, runs, uses
from outplace.repair.forms.step_order.lines import (
    binds_within,
    lines_before,
    listed,
    names_bound,
    names_bound_within,
)
from outplace.repair.forms.step_order.order import Order, Reordering, statement_at
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, method_call
from outplace.repair.syntax.code import Code, Function, Loop, root_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, names_in, reads, used_later


def in_each_round(order: Order, loop: Loop, files: Files) -> Iterator[Reordering]:
    """Values that are computed once, before the loop, and used by the backward of every iteration."""
    if not isinstance(loop, ast.While) and any(reads(order.step, name) for name in names_bound(loop)):
        return  # each iteration steps another optimizer, so the iterations do not repeat one update
    names = _stale_in(order, loop.body)
    if not names:
        return
    user = _first_reader(order, loop.body, names)
    run_inside = [call for statement in loop.body for call in runs(order.code, statement)]
    own = {*names_bound(loop)}.union(*map(names_bound_within, loop.body))
    behind = {name: _runs_behind(order, user, name) for name in names}
    again = [
        name
        for name in names
        if any(_alike(call, one, own) for call in run_inside for one in behind[name])
        or _runs_all_again(order, loop, files, behind[name])
    ]
    # The iterations compare with these values: PPO's old probabilities must not be computed again.
    edit = _detached_before(order, loop, names) if again == names else None
    if edit is not None:
        title = f"Detach {listed(names)} before the loop, whose rounds compute the same with their own weights"
        alone = order.moment.from_source and Training(order).rounds_are_separate()
        yield Reordering(title, "earlier", [edit], plain=alone)
    forward_again = _computed_before(order.code, user, names, order.stale) if not again else None
    if forward_again is not None:
        title = f"Make {listed(names)} anew in each round, with the weights of the round"
        yield Reordering(title, "earlier", [forward_again[1]])


def _alike(inside: ast.Call, before: ast.Call, own: set[str]) -> bool:
    """Do both run the same network on the same values, on parts of them, or on the `own` values of an iteration?"""
    pairs = list(zip(inside.args, before.args, strict=False))
    return ast.unparse(inside.func) == ast.unparse(before.func) and all(
        ast.unparse(root_of(one)) == ast.unparse(root_of(other)) or own & names_in(one) for one, other in pairs
    )


def _runs_all_again(order: Order, loop: Loop, files: Files, before: list[ast.Call]) -> bool:
    """Does the loop run all networks that these functions run, on the same values or parts of them: `estimate(obs)`?

    A network that is called itself is compared by `_alike`: a generator makes another picture of another noise.
    """
    code = order.code
    run = [functions_of(files, code, call) or [] for call in before]
    if not all(found and all(function.name != "forward" for _, function, _ in found) for found in run):
        return False
    needed = {network for call in before for network in networks_within(files, code, call)}
    calls = [call for item in loop.body for call in runs(code, item) if _first(call) in set(map(_first, before))]
    return bool(needed) and needed <= {network for call in calls for network in networks_within(files, code, call)}


def _first(call: ast.Call) -> str:
    """What the call is given first, as a whole."""
    return ast.unparse(root_of(call.args[0]))


def _stale_in(order: Order, statements: list[ast.stmt]) -> list[str]:
    """The stale names whose graph these statements use, and which they do not bind."""
    used = [name for name in order.stale if any(uses(order.code, item, name) for item in statements)]
    return [name for name in used if not any(binds_within(item, name) for item in statements)]


def _computed_before(
    code: Code, user: ast.stmt, names: list[str], stale: Collection[str], cut: Collection[str] = ()
) -> tuple[Remade, Edit] | None:
    """Computes values again right before a statement, with the values in `cut` detached."""
    forward_again = remade(code, user, names, stale, cut)
    edit = lines_before(code, user, forward_again.lines) if forward_again is not None else None
    return None if forward_again is None or edit is None else (forward_again, edit)


def _runs_behind(order: Order, at: ast.stmt, name: str) -> list[ast.Call]:
    """The networks that run to compute a value."""
    found: list[ast.Call] = []
    waiting, seen = [name], {name}
    while waiting:
        assignment = made_last(order.code, at, waiting.pop())
        inputs = names_in(assignment.value) if assignment is not None else set()
        found += runs(order.code, assignment) if assignment is not None else []
        waiting += sorted((inputs & set(order.stale)) - seen)
        seen |= inputs
    return found


def _detached_before(order: Order, loop: Loop, names: list[str]) -> Edit | None:
    """Lines before the outermost loop that uses values from before it."""
    outside = [item for item in order.code.loops(order.step) if not any(binds_within(item, name) for name in names)]
    return lines_before(order.code, (outside or [loop])[-1], [f"{name} = {name}.detach()" for name in names])


def after_the_step(order: Order) -> Iterator[Reordering]:
    """`d_fake` goes into the loss of the step and into the next loss, which gets it computed again."""
    block = order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    names = _stale_in(order, after)
    cut = [] if Training(order).trains_again() else [path for path in order.moment.for_the_step if "." not in path]
    if set(names) <= set(cut):
        return  # there are none, or they are detached
    user = _first_reader(order, after, names)
    if not set(names) & set(cut):  # else some would use the old weights and some the new ones
        forward_again = _computed_before(order.code, user, names, order.stale, cut)
        if forward_again is not None and forward_again[0].detached:
            what = f"{listed(forward_again[0].detached)} detached"
            title = f"Make {listed(names)} anew from {what}: this loss is not to train what has just been stepped"
            yield Reordering(title, "earlier", [forward_again[1]])
    forward_again = _computed_before(order.code, user, names, order.stale)
    if forward_again is not None:
        yield Reordering(_after_step(names), "earlier", [forward_again[1]])


def after_an_update(order: Order) -> Iterator[Reordering]:
    """The same for an update by hand that uses gradients (SAM's first step): the next loss is for the new weights."""
    block = order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    names = sorted(set().union(*map(names_in, after)))
    old = [name for name in names if _came_from_a_network(order, name)]
    inputs = [name for name in sorted(_behind(order, old)) if _came_from_a_network(order, name)]
    held = dict.fromkeys([*old, *inputs], "tensor")
    again = replace(order, moment=replace(order.moment, held=held))
    yield from filter(None, [_second_backward(again)])
    yield from after_the_step(again) if old else ()


def _second_backward(order: Order) -> Reordering | None:
    """One loss goes backward before the update and after it: the second time it is that of the new weights.

    With the old ones it would give the same gradient twice. Whoever reads the loss later gets the value of the first.
    """
    code, block = order.code, order.code.block(order.outer_step)
    backward = method_call(order.backward, "backward")
    if backward is None or not isinstance(backward.receiver, ast.Name) or order.backward not in block:
        return None
    loss = backward.receiver
    earlier = (method_call(item, "backward") for item in block[: block.index(order.outer_step)])
    if not any(call is not None and ast.unparse(call.receiver) == loss.id for call in earlier):
        return None
    forward_again = remade(code, order.backward, [loss.id], order.stale)
    *first, last = forward_again.lines if forward_again is not None else [""]
    value = last.removeprefix(f"{loss.id} = ")
    others = {name for line in first for item in ast.parse(line).body for name in names_bound_within(item)}
    before = lines_before(code, order.backward, first) if first else None
    if value == last or any(used_later(code, order.backward, name) for name in others) or (first and not before):
        return None
    text = value if isinstance(ast.parse(value, mode="eval").body, ast.Call | ast.Name) else f"({value})"
    title = f"Compute `{loss.id}` anew for its second backward, with the new weights"
    edits = [*([before] if before is not None else []), Edit(*code.span(loss), text)]
    return Reordering(title, "earlier", edits, plain=True)


def _behind(order: Order, names: list[str]) -> set[str]:
    """The names that these are computed from, and those that they are computed from."""
    waiting, seen = list(names), set(names)
    while waiting:
        assignment = made_last(order.code, order.outer_step, waiting.pop())
        inputs = names_in(assignment.value) - seen if assignment is not None else set()
        seen |= inputs
        waiting += sorted(inputs)
    return seen


def _came_from_a_network(order: Order, name: str) -> bool:
    """Was it computed before the update by a network, or from something that was?"""
    found = [made_last(order.code, order.outer_step, one) for one in sorted(_behind(order, [name]))]
    own = made_last(order.code, order.outer_step, name)
    is_computed = own is not None and is_forward(order.code, own)
    return is_computed and any(
        one is not None and is_forward(order.code, one) and runs(order.code, one) for one in found
    )


def _after_step(names: list[str]) -> str:
    return f"Make {listed(names)} anew after the step, with the new weights"


def _first_reader(order: Order, after: list[ast.stmt], names: list[str]) -> ast.stmt:
    """The first statement that uses the graph of one of them, inside its `with` blocks."""

    def goes_on(statement: ast.stmt) -> bool:
        return any(uses(order.code, statement, name) for name in names)

    first = next(filter(goes_on, after))
    while isinstance(first, ast.With | ast.AsyncWith):
        inside = list(filter(goes_on, first.body))
        if not inside:
            break
        first = inside[0]
    return first


def before_the_return(order: Order, files: Files) -> Iterator[Reordering]:
    """`return loss, score` after the step: computes the score again before it is returned for the next loss."""
    found = _return_of_the_step(order, files)
    call = order.step.value if isinstance(order.step, ast.Assign) else None
    if found is None or not isinstance(order.step, ast.Assign) or not isinstance(call, ast.Call):
        return
    code, function, result = found
    targets, values = (_items(item) for item in (order.step.targets[0], result.value) if item is not None)
    if called_name(call) != function.name or len(targets) != len(values):
        return
    handed = [value for target, value in zip(targets, values, strict=True) if ast.unparse(target) in order.stale]
    names = [value.id for value in handed if isinstance(value, ast.Name)]
    forward_again = _computed_before(code, result, names, ()) if names and len(names) == len(handed) else None
    if forward_again is not None:
        yield Reordering(_after_step(names), "earlier", [forward_again[1]], code.path)


def _return_of_the_step(order: Order, files: Files) -> tuple[Code, Function, ast.Return] | None:
    """The function that steps, and its only `return`, if that returns something after the step."""
    file, line = order.moment.stepped_at or ("", 0)
    code = files.code(file) if file else None
    step = statement_at(code, line, "step") if code is not None else None
    function = code.function(step) if code is not None and step is not None else None
    if code is None or not isinstance(function, Function):
        return None
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    one_after = len(returns) == 1 and returns[0].lineno >= line and returns[0].value is not None
    return (code, function, returns[0]) if one_after else None


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def where_it_is_used(order: Order, files: Files) -> Iterator[Reordering]:
    """`self.penalty = self.net.weight.pow(2).sum()` in an `__init__`: repeats that line before the value is read."""
    names = dict.fromkeys(path.split(".")[-1] for path in order.moment.held if "." in path)
    for name in names:
        if not is_built_once(files, name):
            continue
        result, reader = _value_of(files, name), _only_reader(files, name)
        if result is None or reader is None:
            continue
        (home, value, used), (code, statement, owner) = result, reader
        if code is not home and used - {"self", "torch"}:
            continue  # names of another file
        again = re.sub(r"\bself\b", owner, value)
        edit = lines_before(code, statement, [f"{owner}.{name} = {again}"])
        if edit is not None:
            title = f"Compute `{owner}.{name}` anew in each round, with the weights of the round"
            yield Reordering(title, "earlier", [edit], code.path)
    return


def _value_of(files: Files, name: str) -> tuple[Code, str, set[str]] | None:
    """The value of its only assignment, with its names, if it uses no local name of the `__init__`."""
    path = f"self.{name}"
    assignments = [(code, node) for code in files.codes(name) for node in code.every(ast.Assign) if binds(node, path)]
    code, assigned = assignments[0] if len(assignments) == 1 else (None, None)
    home = code.function(assigned) if code is not None and assigned is not None else None
    if code is None or assigned is None or not isinstance(home, ast.FunctionDef) or len(assigned.targets) != 1:
        return None
    own = {arg.arg for arg in ast.walk(home.args) if isinstance(arg, ast.arg)} - {"self"}
    own |= {bound for statement in home.body for bound in names_bound_within(statement)}
    used = names_in(assigned.value)
    return (code, code.segment(assigned.value), used) if is_forward(code, assigned) and not used & own else None


def _only_reader(files: Files, name: str) -> tuple[Code, ast.stmt, str] | None:
    """The only statement that reads it, and the object whose attribute it is there."""
    read = [
        (code, node)
        for code in files.codes(name)
        for node in code.every(ast.Attribute)
        if node.attr == name and isinstance(node.ctx, ast.Load)
    ]
    found = {(code, code.statement(node), ast.unparse(node.value)) for code, node in read}
    if len(found) != 1:
        return None
    ((code, statement, owner),) = found
    plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return)
    if statement is None or not plain or not re.fullmatch(r"[\w.]+", owner):
        return None
    return None if owner.split(".")[0] in names_bound_within(statement) else (code, statement, owner)
