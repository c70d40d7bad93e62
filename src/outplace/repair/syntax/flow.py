"""The order in which a function's statements run, for names: what is read later, what was bound before."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from outplace.repair.syntax.code import Code, root_of

Meets = Callable[[ast.stmt], bool | None]
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LEAVE = ast.Return | ast.Raise | ast.Break | ast.Continue


Besides = Callable[[ast.Subscript], bool]
"""Is this a part of the value other than the one in question?"""

Holds = Callable[[ast.expr], bool | None]
"""Is this condition of an `if` true? None if that is not known."""


def names_in(node: ast.AST) -> set[str]:
    """All names inside a node, read or bound."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def reads(node: ast.AST, path: str, besides: Besides | None = None) -> bool:
    """Does it read this name or attribute (`x`, `self.h`)? A part counts: `x[0]` and `x.T` read `x`."""
    passed = set(_passed_over(node, besides)) if besides is not None else ()
    for part in ast.walk(node):
        if part in passed:
            continue
        if isinstance(part, ast.Name) and part.id == path and isinstance(part.ctx, ast.Load):
            return True
        if isinstance(part, ast.AugAssign) and ast.unparse(part.target) == path:
            return True
        dotted = isinstance(part, ast.Attribute) and "." in path and isinstance(part.ctx, ast.Load)
        if dotted and ast.unparse(part) == path:
            return True
    return False


def reads_any(nodes: Iterable[ast.AST], paths: Iterable[str]) -> bool:
    """Does one of these read one of these names or attributes?"""
    wanted = list(paths)
    return any(reads(node, path) for node in nodes for path in wanted)


def _passed_over(node: ast.AST, besides: Besides) -> Iterator[ast.expr]:
    """What gives no value of the part in question: other parts, `len(x)`, `x.keys()`, `key in x`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and besides(part):
            yield part.value
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len":
            yield from part.args
        elif isinstance(part, ast.Attribute) and part.attr == "keys":
            yield part.value
        elif isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In | ast.NotIn):
            yield part.comparators[0]


def binds(statement: ast.AST, path: str) -> bool:
    """Is it an assignment to exactly this name or attribute?"""
    return any(_is_target(target, path) for target in targets_of(statement))


def flat(targets: list[ast.expr]) -> list[ast.expr]:
    """The targets of an assignment, with tuples and stars taken apart."""
    found: list[ast.expr] = []
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            found += flat(target.elts)
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """What an assignment, a loop or a `with` binds."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.For | ast.AsyncFor):
        return [statement.target]
    if isinstance(statement, ast.AnnAssign):
        return [statement.target] if statement.value is not None else []
    if isinstance(statement, ast.NamedExpr):
        return [statement.target]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return []


def _is_target(target: ast.expr, path: str) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return any(_is_target(item, path) for item in target.elts)
    if isinstance(target, ast.Starred):
        return _is_target(target.value, path)
    return isinstance(target, ast.Name | ast.Attribute) and ast.unparse(target) == path


def read_later(code: Code, statement: ast.stmt, path: str, besides: Besides | None = None) -> bool:
    """Can the present value of a name be read after this statement? Parts that are `besides` do not count."""
    if binds(statement, path):
        return False
    return _after(code, statement, lambda later: _meets(later, path, besides), path)


def used_later(code: Code, statement: ast.stmt, path: str, holds: Holds | None = None) -> bool:
    """Is it read after this statement, for more than another write to it?"""
    if binds(statement, path):
        return False

    def meets(later: ast.stmt) -> bool | None:
        return None if _only_writes(later, path) else _meets(later, path)

    return _after(code, statement, meets, path, holds)


def _only_writes(statement: ast.stmt, path: str) -> bool:
    """`x[i] += 1`, `x[i] = 1`, `x.clamp_(0, 1)`: x is used only to write x."""
    target: ast.expr
    if isinstance(statement, ast.AugAssign):
        target, values = statement.target, [statement.value]
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        target, values = statement.targets[0], [statement.value]
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        if not isinstance(call.func, ast.Attribute) or not call.func.attr.endswith("_"):
            return False
        target, values = call.func.value, [*call.args, *(keyword.value for keyword in call.keywords)]
    else:
        return False
    return ast.unparse(root_of(target)) == path and not any(reads(value, path) for value in values)


def _meets(statement: ast.stmt, path: str, besides: Besides | None = None) -> bool | None:
    """True: reads it. False: control leaves here, or the name is rebound. None: goes on."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Assign | ast.AnnAssign) and binds(statement, path):
        return value is not None and (
            reads(value, path, besides) or any(reads(t, path, besides) for t in targets_of(statement))
        )
    if isinstance(statement, ast.For | ast.AsyncFor) and binds(statement, path):
        return True if reads(statement.iter, path, besides) else None  # the body reads the loop's own variable
    if reads(statement, path, besides):
        return True
    return False if isinstance(statement, _LEAVE) and isinstance(statement, ast.Return | ast.Raise) else None


def _after(code: Code, statement: ast.stmt, meets: Meets, path: str, holds: Holds | None = None) -> bool:
    here: ast.stmt = statement
    while True:
        block = code.block(here)
        met = _in_turn(block[block.index(here) + 1 :], meets, holds)
        if met is not None:
            return met
        parent = code.parents[here]
        if (
            isinstance(parent, ast.For | ast.AsyncFor | ast.While)
            and here in parent.body
            and _again(parent, here, meets, path)
        ):
            return True
        if not isinstance(parent, ast.stmt) and not isinstance(parent, ast.ExceptHandler | ast.Module):
            return False
        while isinstance(parent, ast.ExceptHandler):
            parent = code.parents[parent]
        if isinstance(parent, ast.Module):
            return _in_functions(parent, path)
        if isinstance(parent, _SCOPES) or not isinstance(parent, ast.stmt):
            return False
        here = parent


def _in_turn(block: list[ast.stmt], meets: Meets, holds: Holds | None = None) -> bool | None:
    """What the first of these statements to settle it says."""
    for statement in block:
        met = _met_in(statement, meets, holds)
        if met is not None:
            return met
    return None


def _met_in(statement: ast.stmt, meets: Meets, holds: Holds | None) -> bool | None:
    """Like `meets`. Of a block that reads the name, its statements tell whether they bind it first."""
    met = meets(statement)
    held = holds(statement.test) if holds is not None and isinstance(statement, ast.If) else None
    if not met and held is None:
        return met
    if isinstance(statement, ast.If):
        branches = [statement.body] * (held is not False) + [statement.orelse] * (held is not True)
        ways = [_in_turn(branch, meets, holds) for branch in branches]
        return _head_reads(statement.test, meets) or any(ways) or (None if None in ways else False)
    if isinstance(statement, ast.While):
        return _head_reads(statement.test, meets) or _in_turn(statement.body, meets, holds) or None
    if isinstance(statement, ast.For | ast.AsyncFor):
        inside = [*statement.body, *statement.orelse]
        return _head_reads(statement.iter, meets) or _in_turn(inside, meets, holds) or None
    return met


def _head_reads(head: ast.expr, meets: Meets) -> bool:
    return bool(meets(ast.Expr(head)))


def _again(loop: ast.For | ast.AsyncFor | ast.While, here: ast.stmt, meets: Meets, path: str) -> bool:
    """Does the next iteration of a loop read it?"""
    if isinstance(loop, ast.While) and reads(loop.test, path):
        return True
    if not isinstance(loop, ast.While) and _is_target(loop.target, path):
        return False
    return bool(_in_turn(loop.body[: loop.body.index(here) + 1], meets))


def _in_functions(module: ast.Module, name: str) -> bool:
    """Does some function read this name of the top level?"""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and reads(node, name):
            arguments = [arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
            if name not in arguments and not any(binds(inner, name) for inner in ast.walk(node)):
                return True
    return False


def bindings(code: Code, statement: ast.stmt, path: str) -> Iterator[ast.AST | None]:
    """The assignments whose value the name may have at a statement; None for a value from outside (an argument)."""
    here: ast.stmt = statement
    while True:
        block = code.block(here)
        for earlier in reversed(block[: block.index(here)]):
            if isinstance(earlier, ast.Assign | ast.AnnAssign) and binds(earlier, path):
                yield earlier
                return
            if not isinstance(earlier, _SCOPES):
                yield from (node for node in ast.walk(earlier) if binds(node, path))
        parent = code.parents[here]
        if isinstance(parent, ast.For | ast.AsyncFor | ast.While) and here in parent.body:
            inside = parent.body[parent.body.index(here) :]
            yield from (
                node for later in inside for node in ast.walk(later) if binds(node, path) and node is not statement
            )
            if binds(parent, path):
                yield parent
                return
        elif binds(parent, path):
            yield parent
            return
        while isinstance(parent, ast.ExceptHandler):
            parent = code.parents[parent]
        if not isinstance(parent, ast.stmt) or isinstance(parent, _SCOPES):
            yield None
            return
        here = parent


def own_parts(statement: ast.AST) -> list[ast.AST]:
    """A statement without the blocks inside it: the statement itself, or the header of a loop, an `if`, a `with`."""
    if not hasattr(statement, "body"):
        return [statement]
    return [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt | ast.ExceptHandler)]


def earlier_statements(code: Code, statement: ast.stmt) -> Iterator[ast.stmt]:
    """All statements of its function that may have run before it, including those of its loops."""
    scope = code.scope(statement)
    loops = code.loops(statement)
    inside = set(ast.walk(loops[-1])) if loops else set()
    for node in ast.walk(scope):
        another = isinstance(node, ast.stmt) and node is not statement and node is not scope
        if another and (node in inside or node.lineno < statement.lineno):  # type: ignore[attr-defined]
            yield node  # type: ignore[misc]
