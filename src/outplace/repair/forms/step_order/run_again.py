"""Computes values after the step, with the new weights.

What only the later backward needs is moved. What both losses need is computed again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from outplace.repair.facts.callees import functions_of, is_built_once, networks_within, own_methods
from outplace.repair.forms.step_order.forward import (
    assignments_behind,
    draws,
    last_assignment,
    may_run_again,
    recomputed,
    runs,
    uses,
)
from outplace.repair.forms.step_order.order import Order, Reordering, statement_at
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, called_names, method_call, only_call
from outplace.repair.syntax.code import Code, Function, Loop, root_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, flat, names_in, reads, reads_any, used_later
from outplace.repair.syntax.moves import (
    Move,
    binds_within,
    bound,
    lines_before,
    listed,
    names_bound,
    names_bound_within,
    pasted,
    removed,
    text_of,
    used,
    whole_lines,
)

# -- moved after the step ----------------------------------------------------------------------------------------------


def moved(order: Order) -> Iterator[Reordering]:
    """Moves what only the later backward needs after the step. What both losses depend on is computed again there."""
    code, block = order.code, order.code.block(order.outer_step)
    late = _needed_late(order)
    move = Move(code, late, order.outer_step, after=True)
    edits = move.edits() if late else None
    if edits is None:
        return
    wanted = used([order.outer_backward])
    names = names_bound(late[-1]) or [path for path in order.stale_paths if path in wanted]
    title = f"Compute {listed(names)} after the step, with the new weights"
    if any(isinstance(node, ast.Call) for item in late for node in ast.walk(item)):
        yield Reordering(title, "earlier", edits, plain=_has_its_own_loss(order, late))
    made = {name for item in late for name in names_bound(item)}
    inputs = wanted.union(*(names_in(item) for item in late)) - made
    shared = [name for name in order.stale if name in inputs]
    again = (
        recomputed(order.files, code, block[block.index(order.outer_step) + 1], shared, order.stale) if shared else None
    )
    edits = move.edits([f"{code.indent(order.outer_step)}{text}" for text in again.lines]) if again else None
    if edits is not None:
        yield Reordering(title, "earlier", edits)


def _needed_late(order: Order) -> list[ast.stmt]:
    """The statements before the step that only the later backward needs, and that the step affects.

    These are assignments to names, and calls of methods that store their result in the object (`self.compute_g()`).
    """
    block = order.code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    parts = {item: [item, *_run_by(order, item)] for item in block[:last]}
    late: list[ast.stmt] = []
    wanted, stale = used([order.outer_backward]), set(order.stale_paths)
    for index in range(first - 1, -1, -1):
        statement = block[index]
        makes = bound(parts[statement])
        if not wanted & makes or (order.moment.stale and not stale & makes):
            continue
        if not _may_be_late(order, statement, parts[statement]):
            continue
        others = [part for item in block[index + 1 : last] if item not in late for part in parts[item]]
        passed = [part for item in block[index + 1 : first + 1] if item not in late for part in parts[item]]
        if not makes & used(others) and not used(parts[statement]) & bound(passed):
            late.insert(0, statement)
            wanted |= used(parts[statement])
    calls = [item for item in late if isinstance(item, ast.Expr)]
    return [] if len(calls) > 1 else late


def _may_be_late(order: Order, statement: ast.stmt, parts: list[ast.stmt]) -> bool:
    """Does it only bind names or attributes of the object, without random numbers and training?"""
    if isinstance(statement, ast.Assign):
        return all(isinstance(item, ast.Name) for item in flat(statement.targets)) and not draws(order.code, statement)
    names = set().union(*map(called_names, parts))
    return isinstance(statement, ast.Expr) and len(parts) > 1 and not names & {"backward", "step"}


def _run_by(order: Order, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the methods that a statement calls on its own object."""
    functions = (function for _, function in own_methods(order.files, order.code, statement))
    return [node for function in functions for node in function.body]


def _has_its_own_loss(order: Order, late: list[ast.stmt]) -> bool:
    """Does the step follow the backward of another loss? Else it may be the backward that comes too late."""
    if not all(isinstance(item, ast.Assign) for item in late):
        return False
    names = {name for item in late for name in names_bound(item)}
    block = order.code.block(order.outer_step)
    between = block[block.index(late[0]) : block.index(order.outer_step) + 1]
    for node in (node for item in between if not isinstance(item, Function) for node in ast.walk(item)):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return not (isinstance(node.value, ast.Name) and node.value.id in names)
    calls = [call for item in (order.outer_step, order.outer_backward) if (call := only_call(item)) is not None]
    helpers = {ast.unparse(call.func) for call in calls}  # `update(opt, loss)`, twice
    return len(calls) == 2 and len(helpers) == 1


def from_its_method(order: Order) -> Iterator[Reordering]:
    """A method computed `self.loss_g` before the step: moves that line after the step."""
    code, backward = order.code, method_call(order.backward)
    path = ast.unparse(backward.receiver) if backward is not None else ""
    made = _only_maker(order.files, path) if path.startswith("self.") else None
    if made is None or code.class_of(made[1]) is not code.class_of(order.backward):
        return
    line, home = made[1], code.function(made[1])
    block = code.block(order.outer_step)
    before = block[: block.index(order.outer_step) + 1]
    if len(code.block(line)) < 2 or not whole_lines(code, line) or not isinstance(home, Function):
        return
    if used([line.value]) & bound(before) or any(reads(i, path) for i in [*home.body, *before] if i is not line):
        return
    deep = len(code.indent(line))
    lines = [code.indent(order.outer_step) + text[deep:] for text in text_of(code, [line])]
    title = f"Compute `{path}` after the step, with the new weights"
    yield Reordering(title, "earlier", [removed(code, line), pasted(code, order.outer_step, lines)])


def _only_maker(files: Files, path: str) -> tuple[Code, ast.Assign] | None:
    """The only assignment of `self.penalty`, if its value uses no local name of the method: it can run elsewhere."""
    name = path.split(".")[-1]
    made = [(code, node) for code in files.codes(name) for node in code.every(ast.Assign) if binds(node, path)]
    home = made[0][0].function(made[0][1]) if len(made) == 1 else None
    if not isinstance(home, Function) or len(made[0][1].targets) != 1:
        return None
    own = {arg.arg for arg in ast.walk(home.args) if isinstance(arg, ast.arg)} - {"self"}
    own.update(*map(names_bound_within, home.body))
    return made[0] if not own & names_in(made[0][1].value) else None


# -- computed again ----------------------------------------------------------------------------------------------------


def in_each_iteration(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Values that are computed once, before the loop, and used by the backward of every iteration."""
    if not isinstance(loop, ast.While) and reads_any([order.step], names_bound(loop)):
        return  # each iteration steps another optimizer, so the iterations do not repeat one update
    names = _stale_in(order, loop.body)
    if not names:
        return
    user = _first_reader(order, loop.body, names)
    run_inside = [call for statement in loop.body for call in runs(order.files, order.code, statement)]
    own = {*names_bound(loop)}.union(*map(names_bound_within, loop.body))
    again = []
    for name in names:
        made = assignments_behind(order.code, user, [name], order.stale)
        behind = [call for item in made for call in runs(order.files, order.code, item)]
        alike = any(_alike(call, other, own) for call in run_inside for other in behind)
        again += [name] if alike or _runs_all_again(order, loop, behind) else []
    # The iterations compare with these values: PPO's old probabilities must not be computed again.
    edit = _detached_before(order, loop, names) if again == names else None
    if edit is not None:
        title = f"Detach {listed(names)} before the loop, whose iterations compute the same with their own weights"
        alone = order.moment.from_source and Training(order).iterations_are_separate()
        yield Reordering(title, "earlier", [edit], plain=alone)
    if not again:
        title = f"Compute {listed(names)} again in each iteration, with its weights"
        yield from _computed_before(order, user, names, title)


def _alike(inside: ast.Call, before: ast.Call, own: set[str]) -> bool:
    """Do both run the same network on the same values, on parts of them, or on the `own` values of an iteration?"""
    pairs = list(zip(inside.args, before.args, strict=False))
    return ast.unparse(inside.func) == ast.unparse(before.func) and all(
        ast.unparse(root_of(one)) == ast.unparse(root_of(other)) or own & names_in(one) for one, other in pairs
    )


def _runs_all_again(order: Order, loop: Loop, before: list[ast.Call]) -> bool:
    """Does the loop run all networks that these functions run, on the same values or parts of them: `estimate(obs)`?

    A network that is called itself is compared by `_alike`: a generator makes another picture of another noise.
    """
    files, code = order.files, order.code
    run = [functions_of(files, code, call) or [] for call in before]
    if not all(found and all(function.name != "forward" for _, function, _ in found) for found in run):
        return False
    needed = {network for call in before for network in networks_within(files, code, call)}
    calls = [call for item in loop.body for call in runs(files, code, item) if _first(call) in set(map(_first, before))]
    return bool(needed) and needed <= {network for call in calls for network in networks_within(files, code, call)}


def _first(call: ast.Call) -> str:
    """What the call is given first, as a whole."""
    return ast.unparse(root_of(call.args[0]))


def _stale_in(order: Order, statements: list[ast.stmt]) -> list[str]:
    """The stale names whose graph these statements use, and which they do not bind."""
    names = [name for name in order.stale if any(uses(order.code, item, name) for item in statements)]
    return [name for name in names if name not in bound(statements)]


def _computed_before(
    order: Order, user: ast.stmt, names: list[str], title: str, cut: Collection[str] = ()
) -> Iterator[Reordering]:
    """Computes values again right before a statement; from detached values, if some are in `cut`."""
    again = recomputed(order.files, order.code, user, names, order.stale, cut)
    edit = lines_before(order.code, user, again.lines) if again is not None else None
    if again is None or edit is None or (cut and not again.detached):
        return
    if cut:
        title = f"{title} from {listed(again.detached)} detached: this loss is not to train what has just been stepped"
    yield Reordering(title, "earlier", [edit], order.code.path)


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
    if cut and not set(names) & set(cut):  # else some would use the old weights and some the new ones
        yield from _computed_before(order, user, names, f"Compute {listed(names)} again", cut)
    yield from _computed_before(order, user, names, _after_step(names))


def after_an_update(order: Order) -> Iterator[Reordering]:
    """The same for an update by hand that uses gradients (SAM's first step): the next loss is for the new weights."""
    block = order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    old = [name for name in sorted(set().union(*map(names_in, after))) if _came_from_a_network(order, name)]
    inputs = {name for item in assignments_behind(order.code, order.outer_step, old) for name in names_in(item.value)}
    behind = [name for name in sorted(inputs) if _came_from_a_network(order, name)]
    again = replace(order, moment=replace(order.moment, held=dict.fromkeys([*old, *behind], "tensor")))
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
    forward_again = recomputed(order.files, code, order.backward, [loss.id], order.stale)
    *first, last = forward_again.lines if forward_again is not None else [""]
    value = last.removeprefix(f"{loss.id} = ")
    others = {name for line in first for item in ast.parse(line).body for name in names_bound_within(item)}
    before = lines_before(code, order.backward, first) if first else None
    if value == last or any(used_later(code, order.backward, name) for name in others) or (first and not before):
        return None
    text = value if isinstance(ast.parse(value, mode="eval").body, ast.Call | ast.Name) else f"({value})"
    title = f"Compute `{loss.id}` again for its second backward, with the new weights"
    edits = [*([before] if before is not None else []), Edit(*code.span(loss), text)]
    return Reordering(title, "earlier", edits, plain=True)


def _came_from_a_network(order: Order, name: str) -> bool:
    """Was it computed before the update by a network, or from something that was?"""
    files, code, own = order.files, order.code, last_assignment(order.code, order.outer_step, name)
    behind = (item for item in assignments_behind(code, order.outer_step, [name]) if may_run_again(files, code, item))
    return own is not None and may_run_again(files, code, own) and any(runs(files, code, item) for item in behind)


def _after_step(names: list[str]) -> str:
    return f"Compute {listed(names)} again after the step, with the new weights"


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


def before_the_return(order: Order) -> Iterator[Reordering]:
    """`return loss, score` after the step: computes the score again before it is returned for the next loss."""
    found = _return_of_the_step(order)
    call = order.step.value if isinstance(order.step, ast.Assign) else None
    if found is None or not isinstance(order.step, ast.Assign) or not isinstance(call, ast.Call):
        return
    code, function, result = found
    targets, values = (_items(item) for item in (order.step.targets[0], result.value) if item is not None)
    if called_name(call) != function.name or len(targets) != len(values):
        return
    handed = [value for target, value in zip(targets, values, strict=True) if ast.unparse(target) in order.stale]
    names = [value.id for value in handed if isinstance(value, ast.Name)]
    if names and len(names) == len(handed):
        of_the_step = replace(order, code=code, moment=replace(order.moment, held={}, stale=()))
        yield from _computed_before(of_the_step, result, names, _after_step(names))


def _return_of_the_step(order: Order) -> tuple[Code, Function, ast.Return] | None:
    """The function that steps, and its only `return`, if that returns something after the step."""
    file, line = order.moment.stepped_at or ("", 0)
    code = order.files.code(file) if file else None
    step = statement_at(code, line, "step") if code is not None else None
    function = code.function(step) if code is not None and step is not None else None
    if code is None or not isinstance(function, Function):
        return None
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    one_after = len(returns) == 1 and returns[0].lineno >= line and returns[0].value is not None
    return (code, function, returns[0]) if one_after else None


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def where_it_is_used(order: Order) -> Iterator[Reordering]:
    """`self.penalty = self.net.weight.pow(2).sum()` in an `__init__`: repeats that line before the value is read."""
    for name in dict.fromkeys(path.split(".")[-1] for path in order.moment.held if "." in path):
        made = _only_maker(order.files, f"self.{name}") if is_built_once(order.files, name) else None
        reader = _only_reader(order.files, name)
        if made is None or reader is None or not may_run_again(order.files, *made):
            continue
        (home, assigned), (code, statement, owner) = made, reader
        if code is not home and names_in(assigned.value) - {"self", "torch"}:
            continue  # names of another file
        again = re.sub(r"\bself\b", owner, home.segment(assigned.value))
        edit = lines_before(code, statement, [f"{owner}.{name} = {again}"])
        if edit is not None:
            title = f"Compute `{owner}.{name}` again in each iteration, with its weights"
            yield Reordering(title, "earlier", [edit], code.path)


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
