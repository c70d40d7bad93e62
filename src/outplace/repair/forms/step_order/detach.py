"""Detaches values that a backward must not go through."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from outplace.knowledge.traits import joins
from outplace.repair.facts.aliases import calls_of
from outplace.repair.facts.callees import callee_of, is_built_once
from outplace.repair.forms.out_argument import without_keyword
from outplace.repair.forms.step_order.forward import uses
from outplace.repair.forms.step_order.order import Order, Reordering, goes_backward, only_steps
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, method_call, only_call
from outplace.repair.syntax.code import Code, Function, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, names_in, reads, reads_any
from outplace.repair.syntax.moves import bound, lines_after, listed, names_bound, simple_statements

_DETACHED = {
    "tensor": "{0}.detach()",
    "tuple": "tuple(one.detach() for one in {0})",
    "list": "[one.detach() for one in {0}]",
    "dict": "{{key: one.detach() for key, one in {0}.items()}}",
    "dict with others": "{{key: one.detach() if hasattr(one, 'detach') else one for key, one in {0}.items()}}",
    "list of tuple": "[tuple(one.detach() for one in part) for part in {0}]",
    "list of list": "[[one.detach() for one in part] for part in {0}]",
    "tuple of tuple": "tuple(tuple(one.detach() for one in part) for part in {0})",
    "dict of tuple": "{{key: tuple(one.detach() for one in part) for key, part in {0}.items()}}",
    "dict of list": "{{key: [one.detach() for one in part] for key, part in {0}.items()}}",
}


def state(order: Order, loop: Loop) -> Iterator[Reordering]:
    """`h = h.detach()` after the step, or `previous = out.detach()` if it is stored later than that."""
    code = order.code
    shapes = {path: shape for path, shape in order.moment.held.items() if _is_carried(loop, path, order.files)}
    cut, edits = _cut(code, loop, order.step, shapes, order.moment.held)
    if not cut:
        return
    title = _after_step(cut)
    retained = _retained(order, loop) if not order.moment.from_source else None
    if retained is not None:
        yield Reordering(title, "beginning", [*edits, retained])
    grows = any(isinstance(keeper.statement, ast.Expr) for path in cut for keeper in _keepers(loop, path))
    yield Reordering(title, "beginning", edits, plain=not grows and _is_only_way(order))


def _retained(order: Order, loop: Loop) -> Edit | None:
    """Removes `retain_graph=True` from the only backward of the loop: nothing goes through its graph again."""
    backwards = [
        node for node in ast.walk(loop) if isinstance(node, ast.Attribute) and node.attr in ("backward", "grad")
    ]
    call = only_call(order.backward)
    if call is None or not goes_backward(order.backward) or [call.func] != backwards:
        return None
    keyword = next((item for item in call.keywords if item.arg == "retain_graph"), None)
    return without_keyword(order.code, call, keyword) if keyword is not None else None


class _Spot(NamedTuple):
    """Where a value is detached: in a line after a statement (`h = h.detach()`), or where it is stored."""

    value: str | ast.expr
    shape: str
    statement: ast.stmt | None = None


def _cut(
    code: Code, around: ast.AST, step: ast.stmt, shapes: Mapping[str, str], held: Mapping[str, str]
) -> tuple[list[str], list[Edit]]:
    """What can be detached, and the edits. `held`: the shapes of all values with a graph."""
    lines: dict[ast.stmt, list[str]] = {}
    cut, values = list[str](), list[Edit]()
    for path, shape in shapes.items():
        spots = [spot for spot in _spots(code, around, step, path, shape, held) if spot.shape in _DETACHED]
        cut += [path] if spots else []
        for value, kind, statement in spots:
            if statement is not None:
                lines.setdefault(statement, []).append(f"{value} = {_DETACHED[kind].format(value)}")
            elif isinstance(value, ast.expr):
                plain = isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
                text = code.segment(value) if plain else f"({code.segment(value)})"
                values.append(code.replaced(value, _DETACHED[kind].format(text)))
    after = [lines_after(code, statement, list(dict.fromkeys(texts))) for statement, texts in lines.items()]
    return ([], []) if None in after else (cut, [*filter(None, after), *dict.fromkeys(values)])


def _spots(
    code: Code, around: ast.AST, step: ast.stmt, path: str, shape: str, held: Mapping[str, str]
) -> Iterator[_Spot]:
    """Where to detach what a name holds after the step: where it is stored after it, else right after the step."""
    keepers = list(_keepers(around, path))
    later = [keeper for keeper in keepers if keeper.statement.lineno > step.lineno]
    if len(later) < len(keepers):  # a later binding may be the initial state
        later = [keeper for keeper in later if reads_any([keeper.value], held)]
    if any(_is_stored_between_steps(code, keeper.statement, step) for keeper in later):
        yield from (_Spot(text, held.get(text, ""), step) for text in (ast.unparse(keeper.value) for keeper in later))
        return
    for keeper in later:
        if not keeper.whole and binds(keeper.statement, path):
            yield _Spot(path, shape, keeper.statement)
        else:
            yield _Spot(keeper.value, shape if keeper.whole else held.get(ast.unparse(keeper.value), ""))
    in_any_case = any(keeper.statement in code.block(step) for keeper in later)
    if not in_any_case and (not later or len(later) < len(keepers)):
        yield _Spot(path, shape, step)


def _is_stored_between_steps(code: Code, statement: ast.stmt, step: ast.stmt) -> bool:
    """Do only some iterations step? Then the ones in between continue with the graph."""
    around = list(code.above(statement))
    return any(isinstance(item, ast.If) and item not in around for item in code.above(step))


class _Keeper(NamedTuple):
    """A statement that stores a value: `previous = out`, `memory["last"] = out`, `seen.append(out)`."""

    statement: ast.stmt
    value: ast.expr
    whole: bool
    """Does the name then hold nothing else?"""


def _keepers(around: ast.AST, path: str) -> Iterator[_Keeper]:
    """The statements that store a value under a name, or in what has that name."""

    def is_item(target: ast.expr) -> bool:
        return isinstance(target, ast.Subscript) and ast.unparse(target.value) == path

    for node in ast.walk(around):
        if isinstance(node, ast.Assign) and binds(node, path):
            whole = len(node.targets) == 1 and not isinstance(node.targets[0], ast.Tuple | ast.List)
            yield _Keeper(node, node.value, whole)
        elif isinstance(node, ast.Assign) and any(map(is_item, node.targets)):
            yield _Keeper(node, node.value, False)
        elif isinstance(node, ast.Expr) and (append := method_call(node, "append", "appendleft")) is not None:
            if ast.unparse(append.receiver) == path and len(append.call.args) == 1:
                yield _Keeper(node, append.call.args[0], False)
        elif isinstance(node, ast.stmt) and binds(node, path):
            yield _Keeper(node, ast.Constant(None), False)


def state_inside(order: Order, loop: Loop) -> Iterator[Reordering]:
    """One call does both the step and the next iteration's backward: detaches what the object stores at its step."""
    found = _method_run_by(order.code, order.step, order.files) if order.step is order.backward else None
    carried = {path: shape for path, shape in order.moment.held.items() if _is_carried(loop, path, order.files)}
    if found is None or not carried:
        return
    prefix, home, function = found
    steps = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and only_steps(node)]
    if not all(path.startswith(prefix) for path in carried) or len(steps) != 1:
        return
    own = function.args.args[0].arg
    names = {f"{own}.{path.removeprefix(prefix)}": shape for path, shape in carried.items()}
    cut, edits = _cut(home, function, steps[0], names, {})
    if cut:
        yield Reordering(_after_step(cut), "beginning", edits, home.path, plain=_is_only_way(order))


def _method_run_by(code: Code, statement: ast.stmt, files: Files) -> tuple[str, Code, Function] | None:
    """The first method of the project that a statement calls: `trainer.`, its file, and the method."""
    for node in ast.walk(statement):
        method = method_call(node) if isinstance(node, ast.Call) else None
        callee = callee_of(files, code, method.call) if method is not None else None
        if method is not None and callee is not None:
            home, function, has_self = callee
            return (f"{ast.unparse(method.receiver)}.", home, function) if has_self else None
    return None


def _after_step(names: list[str]) -> str:
    return f"Detach {listed(names)} after the step: each iteration trains on its own part"


def _is_only_way(order: Order) -> bool:
    """Does the source show that each loop iteration trains alone, with all its parameters?"""
    return order.moment.from_source and not order.in_one_iteration and Training(order).iterations_are_separate()


def _is_carried(loop: Loop, path: str, files: Files) -> bool:
    """Does an iteration read what the one before stored? An object keeps an attribute, if an iteration sets it."""
    root = path.split(".")[0]
    if root != path and any(binds(node, root) for item in loop.body for node in ast.walk(item)):
        return False
    if "." in path:
        return not is_built_once(files, path.split(".")[-1])
    if not isinstance(loop, ast.While) and binds(loop, path):
        return False
    for statement in loop.body:
        met = _first_use(statement, path)
        if met is not None:
            return met == "read" and any(True for item in loop.body for _ in _keepers(item, path))
    return False


def _first_use(statement: ast.stmt, path: str) -> str | None:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and binds(statement, path):
        return "read" if statement.value is not None and reads(statement.value, path) else "bound"
    if isinstance(statement, ast.With | ast.AsyncWith):
        return next((met for item in statement.body if (met := _first_use(item, path)) is not None), None)
    if reads(statement, path):
        return "read"
    return "bound" if any(binds(node, path) for node in ast.walk(statement)) else None


def others(order: Order, loop: Loop) -> Iterator[Reordering]:
    """Each iteration steps one of several networks. Its loss must not train the others, so their part is detached."""
    code = order.code
    own = [] if isinstance(loop, ast.While) else names_bound(loop)
    if not any(reads(order.step, name) or reads(order.backward, name) for name in own):
        return
    for path, shape in order.moment.held.items():
        if shape != "list" or "." in path or any(binds(node, path) for node in ast.walk(loop)):
            continue
        loops = [node for node in ast.walk(code.scope(loop)) if isinstance(node, ast.For) and _counter(node)]
        edits = [edit for item in loops for edit in _detached_in(code, item, path)]
        if edits:
            title = f"Detach the others in `{path}`: each loss trains its own part"
            alone = order.moment.from_source and Training(order).others_are_unused()
            yield Reordering(title, "earlier", edits, plain=alone)


def _detached_in(code: Code, loop: ast.For, path: str) -> Iterator[Edit]:
    """In a counting loop: all of the list except the element of this iteration."""
    counter = _counter(loop)
    others = f"one if number == {counter} else one.detach() for number, one in enumerate({path})"
    for node in (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.expr)):
        if code.loops(node)[:1] != [loop]:
            continue
        if isinstance(node, ast.Starred) and ast.unparse(node.value) == path:
            yield code.replaced(node.value, f"({others})")
        elif isinstance(node, ast.Call) and path in (given := [*map(ast.unparse, node.args)]):
            if counter in given or (given[0] == path and joins(called_name(node))):  # `self.imitation(logits, i)`
                yield from (code.replaced(arg, f"[{others}]") for arg in node.args if ast.unparse(arg) == path)
        elif _is_another(node, path, counter):
            yield from code.followed(".detach()", node)


def _counter(loop: Loop) -> str:
    """`i` of `for i in range(n)` and `for i, one in enumerate(all)`."""
    if isinstance(loop, ast.While) or not isinstance(loop.iter, ast.Call):
        return ""
    name, target = ast.unparse(loop.iter.func), loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    return target.id if name in ("range", "enumerate") and isinstance(target, ast.Name) else ""


def _is_another(node: ast.expr, path: str, counter: str) -> bool:
    """Is it another element of the list: `all[1 - i]` or `all[j]`, not `all[i]`?"""
    item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == path
    return item and ast.unparse(node.slice) != counter and not isinstance(node.slice, ast.Slice)  # type: ignore[attr-defined]


def _loads(node: ast.AST, path: str) -> Iterator[ast.Attribute]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and ast.unparse(part) == path:
            yield part


def cut(order: Order, unused: bool) -> Iterator[Reordering]:
    """The later loss gets a detached value, if that value trains only the parameters that were just stepped.

    `unused`: such gradients are certainly discarded.
    """
    if Training(order).trains_again():
        return
    late = _late_reads(order) if order.moment.loss_is_older is not True else {}
    for reads_of in filter(None, (late, _early_reads(order))):
        title = f"Detach {listed(list(reads_of))}: this loss is not to train what has just been stepped"
        edits = order.code.followed(".detach()", *(node for nodes in reads_of.values() for node in nodes))
        yield Reordering(title, "earlier", edits, plain=unused)


def _late_reads(order: Order) -> dict[str, list[ast.expr]]:
    """Where statements after the step use the graph of stale values, if all of these may be detached."""
    code, block = order.code, order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    paths = [*order.stale, *(path for path in order.moment.stale if "." in path)]
    free = [path for path in paths if path not in bound(after)]
    found = {path: [node for item in after for node in _reads(order.files, code, item, path)] for path in free}
    used = {path: nodes for path, nodes in found.items() if nodes}
    return used if all(path in order.moment.for_the_step for path in used) else {}


def _early_reads(order: Order) -> dict[str, list[ast.expr]]:
    """Where the later loss, computed before the step, depends on such values.

    Empty if another loss uses the same statement.
    """
    code, block = order.code, order.code.block(order.outer_step)
    stepped = [path for path in order.moment.for_the_step if order.moment.held.get(path) == "tensor"]
    statements = list(simple_statements(block[: block.index(order.outer_backward)]))
    found: dict[str, list[ast.expr]] = {}
    for statement, shared in _behind_the_loss(order.outer_backward, statements, stepped):
        if statement.lineno > (order.outer_step.end_lineno or 0):
            continue
        nodes = {name: uses(code, statement, name) for name in stepped}
        if shared and any(nodes.values()):
            return {}
        for name, used in nodes.items():
            found.setdefault(name, []).extend(used)
    return {name: nodes for name, nodes in found.items() if nodes}


def _behind_the_loss(
    backward: ast.stmt, statements: list[ast.stmt], stepped: list[str]
) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements that compute a loss from the stepped values, last first. True if something else uses them."""
    wanted = dict.fromkeys(names_in(backward), False)
    passed: list[ast.stmt] = []
    for statement in reversed(statements):
        bound = _filled(statement)
        if not set(bound) & wanted.keys() or set(bound) & set(stepped):
            continue
        passed.append(statement)
        others = [item for item in statements if item not in passed]
        shared = reads_any(others, bound) or any(map(wanted.get, bound))
        yield statement, shared
        wanted.update((name, shared or wanted.get(name, False)) for name in names_in(statement))


def _filled(statement: ast.stmt) -> list[str]:
    """The names that an assignment binds, or the list that it appends to."""
    if isinstance(statement, ast.Assign):
        return names_bound(statement)
    append = method_call(statement, "append")
    return [ast.unparse(append.receiver)] if append is not None else []


def _reads(files: Files, code: Code, statement: ast.stmt, path: str) -> Iterator[ast.expr]:
    """Where a statement, or a method of the object that only it calls, reads a value with its graph."""
    if "." not in path:
        yield from uses(code, statement, path)
        return
    yield from _loads(statement, path)
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        receiver = f"{ast.unparse(call.func.value)}." if isinstance(call.func, ast.Attribute) else ""
        callee = callee_of(files, code, call) if receiver and path.startswith(receiver) else None
        if callee is None or callee[0] is not code or not callee[2] or not callee[1].args.args:
            continue
        if len(calls_of(files, code, callee[1]) or ()) == 1:
            yield from _loads(callee[1], f"{callee[1].args.args[0].arg}.{path.removeprefix(receiver)}")
