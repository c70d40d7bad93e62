"""May a name be bound anew instead of changing its tensor? Only where nobody else is to see the change.

Three answers: "yes" (nobody else can see it), "no" (somebody does, and reads it later), "unknown" (callers that are not
in these files).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.knowledge import ops
from outplace.knowledge.traits import method_has
from outplace.repair.facts import attributes, keeping
from outplace.repair.facts.attributes import Answer
from outplace.repair.facts.origins import DISPLAYS, FRESH, Origin, argument_of, may_share, origins
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import (
    Besides,
    bindings,
    binds,
    earlier_statements,
    flat,
    own_parts,
    read_later,
    reads,
    targets_of,
)
from outplace.source.facts import Question

_KEEPERS = {
    "__setattr__", "__setitem__", "add", "add_param_group", "append", "appendleft", "enqueue", "extend", "extendleft",
    "insert", "push", "put", "put_nowait", "register_buffer", "register_parameter", "retain_grad", "save", "send",
    "set", "setattr", "setdefault", "store", "update",
}  # fmt: skip
"""Methods and functions that may keep what they are given."""
_DEEPEST = 3


def may_rebind(files: Files, code: Code, statement: ast.stmt, path: str, depth: int = 0) -> Answer:
    """May `path` (a name, or an attribute such as `self.h`) be bound to a new tensor at this statement?

    The analysis tells. Where it cannot follow the tensor, the text has to.
    """
    if path.split(".")[-1] in ("data", "grad") or not ("." in path or _is_own(code, statement, path)):
        return "no"
    facts = files.inquiry.ask(Question(code.path, statement.lineno, statement.col_offset, path))
    return facts.may_rebind if facts.is_known else _by_the_text(files, code, statement, path, depth)


def _by_the_text(files: Files, code: Code, statement: ast.stmt, path: str, depth: int) -> Answer:
    if "." in path:
        return attributes.may_rebind(files, code, statement, path)
    shared = _shared(files, code, statement, path)
    apart = {path, *_other_parts(files, code, statement, path)}
    if shared is None or any(_is_read(code, statement, path, other) for other in shared - apart):
        return "no"
    function = code.function(statement)
    arguments = shared & set(_parameters(function)) if function is not None else set()
    if shared == {path} and None not in bindings(code, statement, path):
        arguments = set()  # it was given as an argument, but has been bound to a tensor of its own since
    return _worst(_from_callers(files, code, statement, name, depth) for name in sorted(arguments))


def is_parting(value: ast.expr | None) -> bool:
    """`x.chunk(2)`: several parts of one tensor, in a tuple."""
    op = ops.lookup(ast.unparse(value.func).split(".")[-1]) if isinstance(value, ast.Call) else None
    return op is not None and op.view == "multi"


def _other_parts(files: Files, code: Code, statement: ast.stmt, name: str, depth: int = 0) -> set[str]:
    """`b` beside `a` in `a, b = x.chunk(2)`: another part of the same memory, which writes of `a`, or of a view of it,
    do not reach."""
    found: set[str] = set()
    for binding in bindings(code, statement, name):
        value, targets = getattr(binding, "value", None), targets_of(binding) if binding is not None else []
        if isinstance(binding, ast.Assign) and depth < _DEEPEST and isinstance(targets[0], ast.Name):
            viewed = [one.path for one in origins(files, code, binding.value)]
            if len(viewed) == 1 and viewed[0] and not is_parting(value):
                found |= _other_parts(files, code, binding, viewed[0], depth + 1)
                continue
        if not is_parting(value) or len(targets) != 1 or not isinstance(targets[0], ast.Tuple):
            return set()
        found |= {item.id for item in flat(targets) if isinstance(item, ast.Name)}
    return {other for other in found if sum(binds(node, other) for node in ast.walk(code.scope(statement))) == 1}


def _taken_from(code: Code, statement: ast.stmt, name: str) -> tuple[str, Besides] | None:
    """Of `part = out["density"]`, `y = x[:2]`: `out`, `x`; and does another part, such as `x[2:]`, lie beside it?"""
    entries = [one.value if isinstance(one, ast.Assign) else None for one in bindings(code, statement, name)]
    taken = [one for one in entries if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name)]
    holders = {ast.unparse(one.value) for one in taken}
    if len(taken) < len(entries) or len(holders) != 1:
        return None
    return holders.pop(), lambda other: all(_lie_apart(one.slice, other.slice) for one in taken)


def _lie_apart(one: ast.expr, other: ast.expr) -> bool:
    """Two keys of one dict, two places or stretches of one tensor: have they nothing in common?"""
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant) and isinstance(one.value, str):
        return one.value != other.value
    ends = [_stretch(key) for key in (one, other)]
    return None not in ends and (ends[0][1] <= ends[1][0] or ends[1][1] <= ends[0][0])  # type: ignore[index]


def _stretch(key: ast.expr) -> tuple[float, float] | None:
    """From where to where a key reaches; None where that depends on the length, or is not known."""
    if isinstance(key, ast.Constant) and type(key.value) is int:
        return key.value, key.value + 1
    bounds = [key.lower, key.upper] if isinstance(key, ast.Slice) else []
    if not bounds or not all(
        one is None or (isinstance(one, ast.Constant) and type(one.value) is int) for one in bounds
    ):
        return None
    lower, upper = (one.value if isinstance(one, ast.Constant) else None for one in bounds)
    return (lower or 0, float("inf") if upper is None else upper)  # type: ignore[return-value]


def _worst(answers: Iterable[Answer]) -> Answer:
    found = set(answers)
    return "no" if "no" in found else "unknown" if "unknown" in found else "yes"


def only_name(files: Files, code: Code, statement: ast.stmt, name: str) -> bool:
    """Is it the one name in its function for what it holds, whatever object may hold it outside?"""
    return _is_own(code, statement, name) and not read_by_another_name(files, code, statement, name)


def read_by_another_name(files: Files, code: Code, statement: ast.stmt, name: str) -> bool:
    """Is what a name holds read later under another one, or from something that its function has put it into?"""
    names, held = holders(files, code, statement, name)
    apart = {name, *_other_parts(files, code, statement, name)}
    objects = {path.split(".")[0] for path in held if "." in path}
    if any("." not in path for path in held):
        return True
    return any(_is_read(code, statement, name, other) for other in held | names - apart - objects)


def holders(files: Files, code: Code, statement: ast.stmt, name: str) -> tuple[set[str], set[str]]:
    """All names of the function, and all else, that may hold what this name does."""
    names, held = {name}, set[str]()
    links = list(_links(files, code, _since_it_was_made(files, code, statement, name)))
    size = 0
    while len(names) > size:
        size = len(names)
        for pair in links:
            ends = {end.path for end in pair if end.kind == "name"}
            if names & ends:
                names |= ends
                held |= {end.path for end in pair if end.kind == "held"}
    return names, held


def _is_read(code: Code, statement: ast.stmt, name: str, other: str) -> bool:
    """Is what one name holds read later by another?"""
    taken = _taken_from(code, statement, name)
    return read_later(code, statement, other, taken[1] if taken is not None and taken[0] == other else None)


def sole_reader(files: Files, code: Code, statement: ast.stmt, name: str) -> bool:
    """May this statement overwrite what the name holds: a tensor that was made here, and that nobody reads later?"""
    if not _is_own(code, statement, name) or _in_closure(code, statement, name):
        return False
    shared = _shared(files, code, statement, name)
    if shared is None or any(read_later(code, statement, other) for other in shared):
        return False
    return all(
        _made_here(files, code, binding, shared) for other in shared for binding in bindings(code, statement, other)
    )


def _made_here(files: Files, code: Code, binding: ast.AST | None, names: set[str]) -> bool:
    value = getattr(binding, "value", None)
    if not isinstance(binding, ast.Assign | ast.AnnAssign | ast.NamedExpr) or value is None:
        return False  # an argument, the target of a loop or of a `with`
    return all(o.kind == "fresh" or (o.kind == "name" and o.path in names) for o in origins(files, code, value))


def _in_closure(code: Code, statement: ast.stmt, name: str) -> bool:
    """Does a function inside this one see the name?"""
    scope = code.scope(statement)
    inner = (node for node in ast.walk(scope) if node is not scope and isinstance(node, _INNER))
    return any(reads(node, name) for node in inner) if not isinstance(scope, ast.Module) else False


_INNER = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp


def _shared(files: Files, code: Code, statement: ast.stmt, path: str) -> set[str] | None:
    """The names of the function that may stand for the same memory; None where something else holds it too."""
    earlier = _since_it_was_made(files, code, statement, path)
    names = sharing(files, code, earlier, {path}, statement)
    if names is None or keeping.given_away(files, code, [part for one in earlier for part in own_parts(one)], names):
        return None
    return names


def _since_it_was_made(files: Files, code: Code, statement: ast.stmt, path: str) -> list[ast.stmt]:
    """The statements that may have made something else hold it: those before it was made held another tensor."""
    earlier = list(earlier_statements(code, statement))
    made = list(bindings(code, statement, path))
    simple = [one for one in made if isinstance(one, ast.Assign) and origins(files, code, one.value) == {FRESH}]
    if not made or len(simple) != len(made):
        return earlier
    around = [loop for loop in code.loops(statement) if not all(one in ast.walk(loop) for one in simple)]
    first, last = min(one.lineno for one in simple), max(loop.end_lineno or 0 for loop in (*around, statement))
    return [one for one in earlier if first <= one.lineno <= last]


def sharing(
    files: Files, code: Code, statements: Iterable[ast.stmt], names: set[str], rebinding: ast.stmt | None = None
) -> set[str] | None:
    """These names and all that these statements make to stand for the same memory; None where something else holds it.

    What the `rebinding` statement binds anew holds it no longer.
    """
    names = set(names)
    links = list(_links(files, code, statements))
    while True:
        size = len(names)
        for target, origin in links:
            ends = [end.path for end in (target, origin) if end.kind == "name"]
            if not names.intersection(ends):
                continue
            names.update(ends)
            held = [end.path for end in (target, origin) if end.kind == "held"]
            if any(rebinding is None or not binds(rebinding, path) for path in held):
                return None
        if len(names) == size:
            return names


def shared_names(files: Files, code: Code, statement: ast.stmt, path: str) -> set[str]:
    """The names of the function that may stand for the same memory as this one."""
    return _shared(files, code, statement, path) or {path}


def holds_alone(files: Files, code: Code, statement: ast.stmt, container: str) -> bool:
    """Are the items of a list or dict nobody else's, as far as this function shows?"""
    shared = _shared(files, code, statement, container)
    if shared is None or any(name != container and read_later(code, statement, name) for name in shared):
        return False
    for earlier in earlier_statements(code, statement):
        for node in ast.walk(earlier) if not hasattr(earlier, "body") else ():
            given: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = [ast.unparse(one) for one in flat(targets_of(node))]
                given = [node.value] if any(one.split("[")[0] == container for one in targets) else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                own = node.func.attr in _KEEPERS and ast.unparse(node.func.value) == container
                given = [*node.args, *(keyword.value for keyword in node.keywords)] if own else []
            if any(origins(files, code, one) != {FRESH} for one in given):
                return False
    return True


def _links(files: Files, code: Code, statements: Iterable[ast.stmt]) -> Iterator[tuple[Origin, Origin]]:
    """Pairs of holders that these statements have made to hold the same memory."""
    for earlier in statements:
        if isinstance(earlier, ast.Assign | ast.AnnAssign) and earlier.value is not None:
            for target in targets_of(earlier):
                yield from _paired(files, code, target, earlier.value)
        elif isinstance(earlier, ast.For | ast.AsyncFor):
            for target in flat([earlier.target]):
                if isinstance(target, ast.Name):
                    found = origins(files, code, earlier.iter)
                    if found != {FRESH} or not isinstance(earlier.iter, ast.Call):  # else the loop alone has it
                        yield Origin("name", target.id), Origin("held", ast.unparse(earlier.iter))
                    yield from ((Origin("name", target.id), one) for one in found)
        elif isinstance(earlier, ast.AugAssign) and isinstance(earlier.value, DISPLAYS):  # `kept += [x]`
            yield from _paired(files, code, earlier.target, earlier.value)
        elif isinstance(earlier, ast.FunctionDef):
            for default in (*earlier.args.defaults, *(one for one in earlier.args.kw_defaults if one is not None)):
                yield from ((Origin("held", "default"), one) for one in origins(files, code, default))
        elif isinstance(earlier, ast.With | ast.AsyncWith):
            for target in flat(targets_of(earlier)):
                yield Origin("name", ast.unparse(target)), Origin("held", "with")
        if isinstance(earlier, ast.Expr | ast.Return | ast.Assign):
            yield from ((Origin("held", "kept"), Origin("name", name)) for name in _handed_over(earlier))
        head = getattr(earlier, "test", None) if hasattr(earlier, "body") else earlier
        for node in ast.walk(head) if head is not None else ():
            if isinstance(node, ast.NamedExpr):
                yield from _paired(files, code, node.target, node.value)
            elif isinstance(node, ast.comprehension):
                for target in flat([node.target]):
                    yield from ((Origin("name", ast.unparse(target)), Origin("name", one)) for one in shown(node.iter))


def _paired(files: Files, code: Code, target: ast.expr, value: ast.expr) -> Iterator[tuple[Origin, Origin]]:
    if isinstance(target, ast.Tuple | ast.List):
        single = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for index, item in enumerate(target.elts):
            inner = item.value if isinstance(item, ast.Starred) else item
            yield from _paired(files, code, inner, value.elts[index] if single else value)  # type: ignore[attr-defined]
        return
    holder = _holder(target)
    if holder is not None:
        yield from ((holder, one) for one in origins(files, code, value) if one.kind != "fresh" and one != holder)


def _holder(target: ast.expr) -> Origin | None:
    if isinstance(target, ast.Name):
        return Origin("name", target.id)
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice | ast.Tuple):
        return None  # copied into a part of another tensor
    return Origin("held", ast.unparse(target))


def _is_own(code: Code, statement: ast.stmt, name: str) -> bool:
    """Is it a name of the function itself, not of one around it?"""
    scope = code.scope(statement)
    if any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in ast.walk(scope)):
        return False
    function = code.function(statement)
    if function is None:
        return True
    return name in _parameters(function) or any(
        binds(node, name) for node in ast.walk(function) if code.function(node) is function
    )


def _parameters(function: Function | ast.Lambda) -> list[str]:
    return [arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]


def _handed_over(statement: ast.stmt) -> Iterator[str]:
    """`outs.append(x)`, `yield x`, `x.retain_grad()`: a container, a caller or autograd now has it too."""
    for node in ast.walk(statement):
        given: list[ast.expr] = []
        if isinstance(node, ast.Yield) and node.value is not None:
            given = [node.value]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _KEEPERS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "retain_grad":
                given.append(node.func.value)
        for argument in given:
            yield from shown(argument)


def shown(node: ast.expr) -> Iterator[str]:
    """The names whose memory a value shows as it stands: the name itself, a view of it, those in a display."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = node.values
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.Starred | ast.NamedExpr | ast.Subscript | ast.Await):
        parts = [node.value]
    elif isinstance(node, ast.Attribute):
        parts = [node.value] if method_has(node.attr, "view_attribute") else []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and may_share(node.func.attr):
        parts = [node.func.value, *node.args[:1]]  # `x.view(-1)`, `torch.flatten(x)`
    for part in parts:
        yield from shown(part)


# -- where the tensor came from ---------------------------------------------------------------------------------------


def _rebound_with(statement: ast.stmt, origin: Origin) -> bool:
    return binds(statement, origin.path)


def _from_callers(files: Files, code: Code, statement: ast.stmt, name: str, depth: int) -> Answer:
    """The tensor is an argument: what do the callers do with it afterwards?"""
    function = code.function(statement)
    if function is None or isinstance(function, ast.Lambda) or depth >= _DEEPEST:
        return "unknown"
    calls = calls_of(files, code, function)
    if not calls:
        return "unknown"
    answers: list[Answer] = []
    for home, call, bound in calls:
        argument = argument_of(function, call, name, bound)
        own = home.statement(call)
        if argument is None or own is None:
            return "unknown"
        others = [other for other in _parameters(function) if other != name and read_later(code, statement, other)]
        given = [value for other in others if (value := argument_of(function, call, other, bound)) is not None]
        if any(_show_the_same(files, home, own, argument, value) for value in given):
            return "no"
        answers.append(_at_caller(files, home, own, argument, depth))
    return _worst(answers)


def _show_the_same(files: Files, code: Code, statement: ast.stmt, one: ast.expr, other: ast.expr) -> bool:
    """May two arguments of one call stand for the same memory, so that a write of one is seen in the other?"""
    seen = set(shown(other))
    for origin in origins(files, code, one):
        names = (_shared(files, code, statement, origin.path) if origin.kind == "name" else None) or {origin.path}
        if seen & (names - _other_parts(files, code, statement, origin.path) | {origin.path}):
            return True
    return False


def _at_caller(files: Files, code: Code, statement: ast.stmt, argument: ast.expr, depth: int) -> Answer:
    """What the caller does with what it gave."""
    answers: list[Answer] = []
    for origin in origins(files, code, argument):
        if origin.kind == "held" and not _rebound_with(statement, origin):
            return "no"
        if origin.kind == "name":
            if read_later(code, statement, origin.path):
                return "no"
            answers.append(may_rebind(files, code, statement, origin.path, depth + 1))
    return _worst(answers)


def calls_of(files: Files, code: Code, function: Function) -> list[tuple[Code, ast.Call, bool]] | None:
    """All calls of a function in these files; None where it is handed around, or called in ways that names hide."""
    owner = code.parents.get(function)
    method = isinstance(owner, ast.ClassDef)
    if isinstance(owner, ast.ClassDef) and function.name == "forward":
        return _calls_of_module(files, owner)
    if function.name.startswith("__"):
        return None
    bound = method and not any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    found: list[tuple[Code, ast.Call, bool]] = []
    for home in files.codes(function.name):
        for node in ast.walk(home.tree):
            shown = (
                (isinstance(node, ast.Attribute) and node.attr == function.name)
                if method
                else (
                    (isinstance(node, ast.Name) and node.id == function.name)
                    or (isinstance(node, ast.Attribute) and node.attr == function.name)
                )
            )
            if not shown:
                continue
            parent = home.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return None
            found.append((home, parent, bound))
    return found


def _calls_of_module(files: Files, owner: ast.ClassDef) -> list[tuple[Code, ast.Call, bool]] | None:
    """All calls of modules of this class; None where one is made that is not bound to a name, or is handed around."""
    names: set[str] = set()
    for home in files.codes(owner.name):
        for node in ast.walk(home.tree):
            if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).split(".")[-1] == owner.name:
                call = home.parents.get(node)
                made = home.parents.get(call) if isinstance(call, ast.Call) and call.func is node else None
                target = made.targets[0] if isinstance(made, ast.Assign) and len(made.targets) == 1 else None
                if not isinstance(target, ast.Name | ast.Attribute):
                    return None
                names.add(ast.unparse(target).split(".")[-1])
    found: list[tuple[Code, ast.Call, bool]] = []
    for name in names:
        for home in files.codes(name):
            for node in ast.walk(home.tree):
                shown = ast.unparse(node).split(".")[-1] if isinstance(node, ast.Name | ast.Attribute) else None
                if shown != name or not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                    continue
                above = home.parents.get(node)
                if isinstance(above, ast.Call) and above.func is node:
                    found.append((home, above, True))
                elif not isinstance(above, ast.Attribute):  # `net.parameters()` is no call of it
                    return None
    return found
