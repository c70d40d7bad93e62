"""An optimizer steps between a forward and the backward that needs the old weights: four ways out of it.

- State that a loop carries from round to round is cut off from the rounds before: `h = h.detach()` after the step.
- A value that was made before a loop, and is sent backward in each round, is made anew in each round.
- A loss that was computed before another loss's step is computed after it.
- Where what one round makes goes backward in a later one, the step goes behind the loop.

Each gives other numbers from the step on, so none is safe: a run has to show that all before it stays as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from outplace.model import Site
from outplace.repair.aliases import calls_of
from outplace.repair.bug import Bug, Keeps, Moment
from outplace.repair.code import Code, Function, Loop
from outplace.repair.edits import Edit
from outplace.repair.files import Files
from outplace.repair.flow import bindings, binds, reads, targets_of
from outplace.repair.forms.backward_first import takes_gradients
from outplace.repair.origins import callee_of


@dataclass(frozen=True)
class Reordering:
    """One way: what it is called, what stays as it was, and the edits."""

    title: str
    keeps: Keeps
    edits: list[Edit]
    file: str | None = None
    """Where it is not the file of the moment."""
    plain: bool = False
    """Is a loss only computed, with all that it is made from, after the step of another loss, or an update only put off
    until the backward that is next?"""


@dataclass(frozen=True)
class _Order:
    """Where the step and the backward stand: their own statements, and those of the block that holds both."""

    code: Code
    moment: Moment
    step: ast.stmt
    backward: ast.stmt
    outer_step: ast.stmt
    outer_backward: ast.stmt

    @property
    def loop(self) -> Loop | None:
        """The innermost loop that repeats both."""
        loops = [one for one in self.code.loops(self.step) if one in self.code.loops(self.backward)]
        return loops[0] if loops else None

    @property
    def in_one_round(self) -> bool:
        """Does the step come before the backward in the same run through the block?"""
        return self.outer_step is not self.outer_backward and self.outer_step.lineno < self.outer_backward.lineno


def reorderings(code: Code, moment: Moment, files: Files | None = None) -> Iterator[Reordering]:
    """The ways that fit, the likeliest to be meant first."""
    order = _order(code, moment)
    if order is None:
        return
    loop = order.loop
    if not moment.by_optimizer:
        later = _behind_the_backward(order)
        if later is not None:
            yield later
        return
    if loop is not None and moment.root_is_older is not True:
        inside = _cut_inside(order, loop, files) if files is not None else None
        cut = _cut(order, loop)
        yield from (one for one in (inside, cut) if one is not None)
    if loop is not None:
        yield from _others_detached(order, loop)
    if order.in_one_round and moment.root_is_older is not False:
        if not _trains_again(order):
            yield from _cut_off(order)
        yield from _computed_later(order)
        called = _called_later(order, files) if files is not None else None
        yield from (one for one in (_kept_loss(order), called) if one is not None)
    if order.in_one_round and moment.root_is_older is False:
        yield from _used_again(order)
    if loop is not None:
        yield from _made_anew(order, loop)
        behind = _behind_the_loop(order, loop) if moment.root_is_older else None
        if behind is not None:
            yield behind


def moments(files: Files, bug: Bug) -> Iterator[Moment]:
    """The step that wrote and the backward after it; or updates and backwards of one function, by the source."""
    by_optimizer = any(_by_optimizer(files, site) for site in bug.writes)
    if by_optimizer and bug.moment is not None:
        yield bug.moment
        return
    for site in bug.writes:
        for code, update in _ways_to(files, site):
            if bug.raised_at is not None:
                backwards = [node for home, node in _ways_to(files, bug.raised_at) if home is code]
            else:
                backwards = [
                    statement
                    for node in ast.walk(code.scope(update))
                    if isinstance(node, ast.Attribute) and node.attr == "backward"
                    if (statement := code.statement(node)) is not None
                ]
            for backward in backwards:
                if code.scope(backward) is code.scope(update) and backward is not update:
                    yield Moment(code.path, update.lineno, backward.lineno, by_optimizer=by_optimizer)


def _by_optimizer(files: Files, site: Site) -> bool:
    """Did an optimizer write, not an update by hand? A `step` that goes backward itself is one of the training."""
    code = files.code(site.file)
    statement = _statement(code, site.line) if code is not None else None
    function = code.function(statement) if code is not None and statement is not None else None
    own = code.segment(function) if code is not None and isinstance(function, Function) else ""
    return ".step(" in site.text or (site.function.split(".")[-1] == "step" and "backward(" not in own)


def _ways_to(files: Files, site: Site, depth: int = 3) -> Iterator[tuple[Code, ast.stmt]]:
    """The statement of a site, and those that call its function, where there is only one such call."""
    code = files.code(site.file)
    statement = _statement(code, site.line) if code is not None else None
    while code is not None and statement is not None and depth:
        yield code, statement
        function = code.function(statement)
        calls = calls_of(files, code, function) if isinstance(function, Function) else None
        if calls is None or len(calls) != 1:
            return
        code, call, _ = calls[0]
        statement, depth = code.statement(call), depth - 1


def _order(code: Code, moment: Moment) -> _Order | None:
    step, backward = _statement(code, moment.step_line, "step"), _statement(code, moment.backward_line, "backward")
    if step is None or backward is None or code.scope(step) is not code.scope(backward):
        return None
    above_step = [step, *(one for one in code.above(step) if isinstance(one, ast.stmt))]
    above_backward = [backward, *(one for one in code.above(backward) if isinstance(one, ast.stmt))]
    for one in above_step:
        for other in above_backward:
            if code.parents.get(one) is code.parents.get(other) and other in code.block(one):
                return _Order(code, moment, step, backward, one, other)
    return None


def _statement(code: Code, line: int, word: str = "") -> ast.stmt | None:
    """The innermost statement of a line; where several stand in it, the one with this word."""
    found = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(
        found, key=lambda node: (node.lineno, -(node.end_lineno or 0), f".{word}(" in code.segment(node)), default=None
    )


# -- state that is carried from round to round ------------------------------------------------------------------------

_DETACHED = {
    "tensor": "{0}.detach()",
    "tuple": "tuple(one.detach() for one in {0})",
    "list": "[one.detach() for one in {0}]",
}


def _cut(order: _Order, loop: Loop) -> Reordering | None:
    code = order.code
    carried = [path for path in _held(order, loop) if _is_carried(loop, path)]
    shapes = {path: order.moment.held.get(path) or _guessed_shape(order.code, loop, path) for path in carried}
    if "" in shapes.values():
        return None
    lines = [f"{path} = {_DETACHED[shape].format(path)}" for path, shape in shapes.items()]
    edit = _after(code, order.step, lines)
    if not lines or edit is None:
        return None
    named = ", ".join(f"`{path}`" for path in carried)
    return Reordering(f"Detach {named} after the step: each round trains on its own part", "beginning", [edit])


def _cut_inside(order: _Order, loop: Loop, files: Files) -> Reordering | None:
    """One call does both, the step and the next round's backward: what the object keeps is detached where it steps."""
    calls = [node for node in ast.walk(order.step) if isinstance(node, ast.Call)]
    callee = callee_of(files, order.code, calls[0]) if order.step is order.backward and calls else None
    receiver = calls[0].func.value if calls and isinstance(calls[0].func, ast.Attribute) else None
    if callee is None or not callee[2] or receiver is None:
        return None
    home, function, _ = callee
    prefix, own = f"{ast.unparse(receiver)}.", function.args.args[0].arg
    carried = {path: shape for path, shape in order.moment.held.items() if _is_carried(loop, path)}
    steps = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and _only_steps(node)]
    if not carried or not all(path.startswith(prefix) for path in carried) or len(steps) != 1:
        return None
    names = {f"{own}.{path.removeprefix(prefix)}": shape for path, shape in carried.items()}
    edit = _after(home, steps[0], [f"{name} = {_DETACHED[shape].format(name)}" for name, shape in names.items()])
    if edit is None:
        return None
    title = f"Detach {', '.join(f'`{name}`' for name in names)} after the step: each round trains on its own part"
    return Reordering(title, "beginning", [edit], home.path)


def _held(order: _Order, loop: Loop) -> list[str]:
    """What may hold a graph: known from a run, else every name that the loop both reads and binds."""
    if order.moment.held:
        return list(order.moment.held)
    names = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return sorted(name for name in names if _from_calls(loop, name))


def _guessed_shape(code: Code, loop: Loop, name: str) -> str:
    """By what it is before the loop: a tuple of states, a tensor; None says nothing."""
    values = [getattr(one, "value", None) for one in bindings(code, loop, name)]
    if any(value is None or isinstance(value, ast.Constant) for value in values):
        return ""
    return "tuple" if all(isinstance(value, ast.Tuple) for value in values) else "tensor"


def _from_calls(loop: Loop, name: str) -> bool:
    values = [node.value for node in ast.walk(loop) if isinstance(node, ast.Assign) and binds(node, name)]
    return bool(values) and all(isinstance(value, ast.Call) and reads(value, name) for value in values)


def _is_carried(loop: Loop, path: str) -> bool:
    """Does a round read what the round before has left? An attribute is kept by its object in any case."""
    if "." in path:
        return True
    if not isinstance(loop, ast.While) and binds(loop, path):
        return False
    for statement in loop.body:
        met = _first_use(statement, path)
        if met is not None:
            return met == "read" and any(binds(node, path) for one in loop.body for node in ast.walk(one))
    return False


def _first_use(statement: ast.stmt, path: str) -> str | None:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and binds(statement, path):
        return "read" if statement.value is not None and reads(statement.value, path) else "bound"
    if reads(statement, path):
        return "read"
    return "bound" if any(binds(node, path) for node in ast.walk(statement)) else None


# -- a value that is made once and used in every round ----------------------------------------------------------------


def _made_anew(order: _Order, loop: Loop) -> Iterator[Reordering]:
    code = order.code
    if not isinstance(loop, ast.While) and any(reads(order.step, name) for name in _names_bound(loop)):
        return  # each round steps another optimizer: the rounds are not repetitions of one update
    for path, shape in order.moment.held.items():
        user = next((one for one in loop.body if reads(one, path)), None)
        inside = any(binds(node, path) for one in loop.body for node in ast.walk(one))
        if "." in path or shape != "tensor" or inside or user is None:
            continue
        for made in _makings(code, loop, path):
            edit = _before(code, user, made)
            if edit is not None:
                title = f"Make `{path}` anew in each round, with the weights of the round"
                yield Reordering(title, "earlier", [edit])


def _makings(code: Code, statement: ast.stmt, path: str) -> Iterator[list[str]]:
    """The statements that make a value, as text: the last one, then those that it is made from, too."""
    made: list[ast.stmt] = []
    wanted = [path]
    for _ in range(_LONGEST):
        found = {one for name in wanted for one in bindings(code, made[0] if made else statement, name)}
        steps = [one for one in found if isinstance(one, ast.Assign) and _is_forward(code, one)]
        if not steps or len({id(code.block(one)) for one in [*steps, *made[:1]]}) != 1:
            return
        steps.sort(key=lambda one: one.lineno)
        made = [*steps, *made]
        yield [code.segment(one) for one in made]
        wanted = [node.id for one in steps for node in ast.walk(one.value) if isinstance(node, ast.Name)]


_LONGEST = 4
_RANDOM = ("rand", "sample", "multinomial", "bernoulli", "normal(")


def _is_forward(code: Code, statement: ast.Assign) -> bool:
    """May it be run again? What draws at random must not be drawn again, and what is trained not be made again."""
    text = code.segment(statement)
    calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    if any(_makes_object(code, call) for call in calls) or "requires_grad" in text:
        return False
    trained = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Call) and _optimizes(node)]
    if any(reads(call, name) for call in trained for name in _names_bound(statement)):
        return False
    alone = code.begins_line(statement) and "\n" not in text
    return bool(calls) and alone and not any(word in text for word in _RANDOM)


def _makes_object(code: Code, call: ast.Call) -> bool:
    """Is it a class that is called: a module, an optimizer? `D(fake)` is none where `D` is a name that was assigned."""
    name = ast.unparse(call.func)
    return name.split(".")[-1][:1].isupper() and not any(binds(node, name) for node in ast.walk(code.tree))


def _optimizes(call: ast.Call) -> bool:
    return "optim" in ast.unparse(call.func).lower()


def _before(code: Code, statement: ast.stmt, lines: list[str]) -> Edit | None:
    return code.before(statement, f"\n{code.indent(statement)}".join(lines))


# -- several that are trained in turn, each with what the others have made --------------------------------------------


def _others_detached(order: _Order, loop: Loop) -> Iterator[Reordering]:
    """Each round steps another one of several: its loss is not to train the others, whose part in it is detached."""
    code = order.code
    own = [] if isinstance(loop, ast.While) else _names_bound(loop)
    if not any(reads(order.step, name) or reads(order.backward, name) for name in own):
        return
    for path, shape in order.moment.held.items():
        if shape != "list" or "." in path or any(binds(node, path) for node in ast.walk(loop)):
            continue
        rounds = [node for node in ast.walk(code.scope(loop)) if isinstance(node, ast.For) and _counter(node)]
        edits = [edit for one in rounds for edit in _detached_in(code, one, path)]
        if edits:
            yield Reordering(f"Detach the others in `{path}`: each loss trains its own part", "earlier", edits)


def _detached_in(code: Code, loop: ast.For, path: str) -> Iterator[Edit]:
    """In a loop that counts: all of the list but the one whose turn it is."""
    counter = _counter(loop)
    others = f"one if number == {counter} else one.detach() for number, one in enumerate({path})"
    for node in (node for one in loop.body for node in ast.walk(one) if isinstance(node, ast.expr)):
        if code.loops(node)[:1] != [loop]:
            continue
        if isinstance(node, ast.Starred) and ast.unparse(node.value) == path:
            yield code.replaced(node.value, f"({others})")
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]) == path and _joins(node):
            yield code.replaced(node.args[0], f"[{others}]")
        elif _is_another(node, path, counter):
            end = code.span(node)[1]
            yield Edit(end, end, ".detach()")


def _counter(loop: Loop) -> str:
    """`i` of `for i in range(n)` and `for i, one in enumerate(all)`."""
    if isinstance(loop, ast.While) or not isinstance(loop.iter, ast.Call):
        return ""
    name, target = ast.unparse(loop.iter.func), loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    return target.id if name in ("range", "enumerate") and isinstance(target, ast.Name) else ""


def _joins(call: ast.Call) -> bool:
    return ast.unparse(call.func).split(".")[-1] in ("cat", "stack", "concat", "concatenate")


def _is_another(node: ast.expr, path: str, counter: str) -> bool:
    """`all[1 - i]` and `all[j]`, beside `all[i]`."""
    item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == path
    return item and ast.unparse(node.slice) != counter and not isinstance(node.slice, ast.Slice)  # type: ignore[attr-defined]


# -- a value of before the step that is used after it -----------------------------------------------------------------


def _used_again(order: _Order) -> Iterator[Reordering]:
    """`d_fake` goes into the loss of the step, and then into the next one: made anew; or cut off, where nothing but
    what has just been stepped would be trained by it."""
    code, moment = order.code, order.moment
    block = code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    after = block[first + 1 : last + 1]
    for path, shape in moment.held.items():
        user = next((one for one in after if reads(one, path)), None)
        bound_after = any(_binds_within(one, path) for one in after)
        if "." in path or shape != "tensor" or user is None or bound_after:
            continue
        again = _trains_again(order)
        if path in moment.for_the_step and not again:
            names = [n for n in ast.walk(user) if isinstance(n, ast.Name) and n.id == path]
            ends = [code.span(name)[1] for name in names if isinstance(name.ctx, ast.Load)]
            title = f"Detach `{path}`: this loss is not to train what has just been stepped"
            yield Reordering(title, "earlier", [Edit(end, end, ".detach()") for end in ends])
            continue
        if not again:
            yield from _made_from_detached(order, user, path)
        for made in _makings(code, user, path):
            edit = _before(code, user, made)
            if edit is not None:
                yield Reordering(f"Make `{path}` anew after the step, with the new weights", "earlier", [edit])


def _made_from_detached(order: _Order, user: ast.stmt, path: str) -> Iterator[Reordering]:
    """`d_z = disc(z)` once more, with `z.detach()`: what made `z` has just been stepped, and is not trained by this."""
    code, found = order.code, list(bindings(order.code, user, path))
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, ast.Assign) or not _is_forward(code, made):
        return
    names = [node for node in ast.walk(made.value) if isinstance(node, ast.Name)]
    stepped = [node for node in names if node.id in order.moment.for_the_step]
    text, start = code.segment(made), code.span(made)[0]
    ends = sorted({code.span(node)[1] - start for node in stepped})
    parts = [text[one:other] for one, other in pairwise([0, *ends, len(text)])]
    edit = _before(code, user, [".detach()".join(parts)])
    if edit is not None and ends:
        given = ", ".join(f"`{name}`" for name in dict.fromkeys(node.id for node in stepped))
        title = f"Make `{path}` anew from {given} detached: this loss is not to train what has just been stepped"
        yield Reordering(title, "earlier", [edit])


def _trains_again(order: _Order) -> bool:
    """Does the optimizer that steps after the backward hold weights that have just been stepped?"""
    block = order.code.block(order.outer_backward)
    for statement in block[block.index(order.outer_backward) :]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
                return order.moment.optimizers.get(ast.unparse(node.func.value), False)
    return False


def _names_bound(statement: ast.stmt) -> list[str]:
    return [node.id for target in targets_of(statement) for node in ast.walk(target) if isinstance(node, ast.Name)]


def _cut_off(order: _Order) -> Iterator[Reordering]:
    """Both losses were computed before the step: the later one without what only trains what has just been stepped."""
    code, block = order.code, order.code.block(order.outer_step)
    wanted = {node.id for node in ast.walk(order.outer_backward) if isinstance(node, ast.Name)}
    stepped = [path for path in order.moment.for_the_step if order.moment.held.get(path) == "tensor"]
    before = block[: block.index(order.outer_backward)]
    on_the_way: list[ast.stmt] = []
    edits: list[Edit] = []
    for statement in reversed(block[: block.index(order.outer_step)]):
        bound = _names_bound(statement)
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


# -- a loss that is computed too early --------------------------------------------------------------------------------


def _computed_later(order: _Order) -> Iterator[Reordering]:
    """Moves what only the later backward needs behind the step; what both losses are made from is made anew there."""
    code = order.code
    block = code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    moved: list[ast.stmt] = []
    wanted = {node.id for node in ast.walk(order.outer_backward) if isinstance(node, ast.Name)}
    for index in range(first - 1, -1, -1):
        statement = block[index]
        if not isinstance(statement, ast.Assign) or not _all_names(statement):
            continue
        bound = _names_bound(statement)
        if not wanted.intersection(bound):
            continue
        between = [one for one in block[index + 1 : last] if one not in moved]
        if any(reads(one, name) or _binds_within(one, name) for one in between for name in bound):
            continue  # others need it where it is
        own = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        if any(_binds_within(one, name) for one in block[index + 1 : first + 1] if one not in moved for name in own):
            continue
        moved.insert(0, statement)
        wanted |= own
    if not moved or not all(_whole_lines(code, one) for one in moved):
        return
    cuts = [Edit(code.offset(one.lineno, 0), code.offset((one.end_lineno or one.lineno) + 1, 0), "") for one in moved]
    texts = [line for one in moved for line in code.lines[one.lineno - 1 : one.end_lineno]]
    names = ", ".join(f"`{name}`" for name in _names_bound(moved[-1]))
    title = f"Compute {names} after the step, with the new weights"
    if any(isinstance(node, ast.Call) for one in moved for node in ast.walk(one)):
        plain = _has_its_own_loss(order, moved)
        yield Reordering(title, "earlier", [*cuts, _pasted(code, order.outer_step, texts)], plain=plain)
    shared = [name for name in order.moment.held if name in wanted and name not in _names_bound(moved[-1])]
    again = [text for name in shared if (text := _making(code, moved[0], name)) is not None]
    if again:
        indent = code.indent(order.outer_step)
        lines = [f"{indent}{text}" for text in dict.fromkeys(again)] + texts
        yield Reordering(title, "earlier", [*cuts, _pasted(code, order.outer_step, lines)])


def _has_its_own_loss(order: _Order, moved: list[ast.stmt]) -> bool:
    """Does the step follow the backward of another loss? Else it may be the backward that comes too late."""
    names = {name for one in moved for name in _names_bound(one)}
    block = order.code.block(order.outer_step)
    between = block[block.index(moved[0]) : block.index(order.outer_step) + 1]
    for node in (node for one in between if not isinstance(one, Function) for node in ast.walk(one)):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return not (isinstance(node.value, ast.Name) and node.value.id in names)
    calls = [one.value for one in (order.outer_step, order.outer_backward) if isinstance(one, ast.Expr)]
    helpers = {ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)}  # `update(opt, loss)`, twice
    return len(calls) == 2 and len(helpers) == 1


def _kept_loss(order: _Order) -> Reordering | None:
    """`self.loss_g` that a method has computed before the step: that line goes behind it."""
    code, function, owner = order.code, order.code.function(order.backward), order.code.class_of(order.backward)
    call = order.backward.value if isinstance(order.backward, ast.Expr) else None
    loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(loss, ast.Attribute) or not isinstance(function, Function) or owner is None:
        return None
    path = ast.unparse(loss)
    made = [node for node in ast.walk(owner) if isinstance(node, ast.Assign) and binds(node, path)]
    home = code.function(made[0]) if len(made) == 1 else None
    if not isinstance(home, Function) or len(code.block(made[0])) < 2 or not _whole_lines(code, made[0]):
        return None
    block = code.block(order.outer_step)
    before = block[: block.index(order.outer_step) + 1]
    needed = {ast.unparse(part) for part in ast.walk(made[0].value) if isinstance(part, ast.Name | ast.Attribute)}
    elsewhere = [one for one in [*home.body, *before] if one is not made[0]]
    if any(reads(one, path) for one in elsewhere) or any(binds(one, name) for one in before for name in needed):
        return None
    own = {arg.arg for arg in home.args.args[1:]} | {name for one in home.body for name in _stored(one)}
    if home is not function and own & needed:
        return None  # made from what only that method has
    first, last = made[0].lineno, made[0].end_lineno or made[0].lineno
    deep = len(code.indent(made[0]))
    lines = [code.indent(order.outer_step) + line[deep:] for line in code.lines[first - 1 : last]]
    cut = Edit(code.offset(first, 0), code.offset(last + 1, 0), "")
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", [cut, _pasted(code, order.outer_step, lines)])


def _called_later(order: _Order, files: Files) -> Reordering | None:
    """`self.compute_g()`, a method that has computed `self.loss_g` before the step: the call goes behind it."""
    code = order.code
    call = order.backward.value if isinstance(order.backward, ast.Expr) else None
    loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(loss, ast.Attribute):
        return None
    path, block = ast.unparse(loss), code.block(order.outer_step)
    last = block.index(order.outer_step)
    calls = [one for one in block[:last] if any(binds(node, path) for node in _run_by(files, code, one))]
    if len(calls) != 1 or not (isinstance(calls[0], ast.Expr) and _whole_lines(code, calls[0])):
        return None
    moved, between = list(_run_by(files, code, calls[0])), block[block.index(calls[0]) + 1 : last + 1]
    others = [node for one in between for node in (one, *_run_by(files, code, one))]
    if _attributes(moved, ast.Store) & _attributes(others, ast.Load) or any(map(_goes_backward, moved)):
        return None
    if _attributes(others, ast.Store) & (_attributes(moved, ast.Load) | _attributes(moved, ast.Store)):
        return None
    cut = Edit(code.offset(calls[0].lineno, 0), code.offset((calls[0].end_lineno or 0) + 1, 0), "")
    lines = code.lines[calls[0].lineno - 1 : calls[0].end_lineno]
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", [cut, _pasted(code, order.outer_step, lines)])


def _run_by(files: Files, code: Code, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of the methods that a statement calls on its own object."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        own = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
        callee = callee_of(files, code, call) if own else None
        yield from (node for node in ast.walk(callee[1]) if isinstance(node, ast.stmt)) if callee is not None else ()


def _attributes(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """The attributes of the object that are read, or those that are bound."""
    parts = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return {part.attr for part in parts if isinstance(part.ctx, context) and ast.unparse(part.value) == "self"}


def _goes_backward(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in ("backward", "step") for part in ast.walk(node))


def _making(code: Code, statement: ast.stmt, name: str) -> str | None:
    """The assignment that makes a value, alone where it is one of several: `b = g()` of `a, b = f(), g()`."""
    found = list(bindings(code, statement, name))
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, ast.Assign) or not _is_forward(code, made):
        return None
    target, value = made.targets[0], made.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        one = next(number for number, item in enumerate(target.elts) if ast.unparse(item) == name)
        return f"{name} = {code.segment(value.elts[one])}"
    return code.segment(made)


def _binds_within(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store | ast.Del)
        for node in ast.walk(statement)
    )


def _all_names(statement: ast.Assign) -> bool:
    """Does it bind plain names only?"""
    return all(
        isinstance(item, ast.Name)
        for target in statement.targets
        for item in (target.elts if isinstance(target, ast.Tuple) else [target])
    )


# -- an update that comes too early -----------------------------------------------------------------------------------


def _behind_the_backward(order: _Order) -> Reordering | None:
    """An average of weights, a clipping, a reset: it takes no gradient, so it can wait for the backward."""
    code, update, backward = order.code, order.outer_step, order.outer_backward
    if not order.in_one_round or not (_whole_lines(code, update) and _whole_lines(code, backward)):
        return None
    block = code.block(update)
    between = block[block.index(update) + 1 : block.index(backward) + 1]
    names = {node.id for node in ast.walk(update) if isinstance(node, ast.Name)}
    if any(reads(one, name) for one in between for name in _stored(update)):
        return None
    if any(_binds_within(one, name) for one in between for name in names):
        return None
    lines = code.lines[update.lineno - 1 : update.end_lineno]
    start, end = code.offset(update.lineno, 0), code.offset((update.end_lineno or 0) + 1, 0)
    edits = [Edit(start, end, ""), _pasted(code, backward, lines)]
    plain = isinstance(backward, ast.Expr) and all(map(_clears, between[:-1])) and not takes_gradients(code, update)
    return Reordering("Update after the backward", "gradients", edits, plain=plain)


def _clears(statement: ast.stmt) -> bool:
    """`opt.zero_grad()`"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


def _pasted(code: Code, statement: ast.stmt, lines: list[str]) -> Edit:
    """Lines behind a statement's last line, which may be the file's last and unended."""
    return Edit(_end(code, statement), _end(code, statement), "".join(f"\n{text}" for text in lines))


def _end(code: Code, statement: ast.stmt) -> int:
    """The end of a statement's last line."""
    line = statement.end_lineno or statement.lineno
    return code.offset(line, len(code.lines[line - 1].encode()))


# -- a step that comes too often --------------------------------------------------------------------------------------


def _behind_the_loop(order: _Order, loop: Loop) -> Reordering | None:
    code = order.code
    step = next((one for one in loop.body if one is order.step or order.step in ast.walk(one)), None)
    if step is None or loop.orelse or len(loop.body) < 2 or not _whole_lines(code, step):
        return None
    body = "\n".join(code.segment(one) for one in loop.body)
    if "zero_grad" in body or not _only_steps(step):
        return None  # a round's gradients are its own, or more than steps would be moved
    outside = _names_bound(loop) + [name for one in loop.body if one is not step for name in _stored(one)]
    if any(reads(step, name) for name in outside):
        return None
    start = code.offset(step.lineno, 0)
    deeper = len(code.indent(step)) - len(code.indent(loop))
    lines = [line[deeper:] if line.strip() else line for line in code.lines[step.lineno - 1 : step.end_lineno]]
    if loop.end_lineno == step.end_lineno:  # the step ends the loop: only its blanks change
        edits = [Edit(start, _end(code, step), "\n".join(lines))]
    else:
        edits = [Edit(start, code.offset((step.end_lineno or 0) + 1, 0), ""), _pasted(code, loop, lines)]
    return Reordering("Step once, after the loop", "beginning", edits)


def _only_steps(statement: ast.stmt) -> bool:
    """`opt.step()`, or a loop over optimizers that does nothing else."""
    if isinstance(statement, ast.For):
        return not statement.orelse and all(_only_steps(one) for one in statement.body)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "step"


def _stored(statement: ast.stmt) -> list[str]:
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


# -- lines ------------------------------------------------------------------------------------------------------------


def _after(code: Code, statement: ast.stmt, lines: list[str]) -> Edit | None:
    """Lines behind a statement; None where it does not stand in lines of its own."""
    indent = code.indent(statement)
    return _pasted(code, statement, [f"{indent}{text}" for text in lines]) if _whole_lines(code, statement) else None


def _whole_lines(code: Code, statement: ast.stmt) -> bool:
    rest = code.lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    return code.begins_line(statement) and (not rest or rest.startswith("#"))
