"""Does another name reach the written tensor and read it later? The analysis of the source answers (`source.facts`).

There are three answers: "yes", "no", and "unknown" (callers outside these files, or a tensor that cannot be followed).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.knowledge import ops
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds
from outplace.source.facts import Answer, Question, Span, WriteFacts
from outplace.source.heuristics import is_parameter_name


def facts_of(files: Files, code: Code, statement: ast.stmt, holder: str) -> WriteFacts:
    """The facts about the tensor that `x`, `self.h` or `d["k"]` holds when this statement writes it."""
    return files.inquiry.ask(Question(code.path, statement.lineno, statement.col_offset, holder))


def facts_of_value(
    files: Files, code: Code, value: ast.expr, for_any_caller: bool = False, until_written: bool = False
) -> WriteFacts:
    """The facts about the value of an expression. `until_written`: it is written later, not at once."""
    end = value.end_lineno or value.lineno, value.end_col_offset or value.col_offset
    return files.inquiry.ask(
        Question(code.path, value.lineno, value.col_offset, "", end, for_any_caller, until_written)
    )


def facts_of_write(files: Files, code: Code, node: ast.expr | ast.stmt) -> WriteFacts:
    """Which expressions gave the memory that is written there? The source need not show what is written."""
    return files.inquiry.ask(Question(code.path, node.lineno, node.col_offset))


def span_of(code: Code, node: ast.expr) -> Span:
    """The place of an expression, as the facts have it."""
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Span(code.path, node.lineno, node.col_offset, *end)


def may_rebind(files: Files, code: Code, statement: ast.stmt, path: str) -> Answer:
    """May `path` (a name, or an attribute such as `self.h`) be rebound to a new tensor at this statement?"""
    *owner, name = path.split(".")
    if owner and (name in ("data", "grad") or is_parameter_name(name)):
        return "no"
    if not owner and not _is_own(code, statement, name):
        return "no"
    return facts_of(files, code, statement, path).may_rebind


def only_name(files: Files, code: Code, statement: ast.stmt, name: str) -> bool:
    """Is this the only name in its function for its tensor? Objects outside may hold it too."""
    if not _is_own(code, statement, name):
        return False
    facts = facts_of(files, code, statement, name)
    return facts.is_known and not any(read.where == "here" for read in facts.reads)


def gives_several_views(value: ast.expr | None) -> bool:
    """`x.chunk(2)`: several parts of one tensor, in a tuple."""
    op = ops.lookup(ast.unparse(value.func).split(".")[-1]) if isinstance(value, ast.Call) else None
    return op is not None and op.view == "multi"


def _is_own(code: Code, statement: ast.stmt, name: str) -> bool:
    """Is it a local name of the function, not of an enclosing one?"""
    scope = code.scope(statement)
    if any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in ast.walk(scope)):
        return False
    function = code.function(statement)
    if function is None or name in [arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]:
        return True
    return any(binds(node, name) for node in ast.walk(function) if code.function(node) is function)


def calls_of(files: Files, code: Code, function: Function) -> list[tuple[Code, ast.Call, bool]] | None:
    """All calls of a function in these files; None if it is passed around, or called in ways that hide its name."""
    owner = code.parents.get(function)
    if isinstance(owner, ast.ClassDef) and function.name == "forward":
        return _calls_of_module(files, owner)
    if function.name.startswith("__"):
        return None
    method = isinstance(owner, ast.ClassDef)
    bound = method and not any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    mentions = [item for item in _mentions(files, function.name) if not method or isinstance(item[1], ast.Attribute)]
    calls = [(home, _call_of(home, node), bound) for home, node in mentions]
    return None if any(call is None for _, call, _ in calls) else calls  # type: ignore[return-value]


def _mentions(files: Files, name: str) -> Iterator[tuple[Code, ast.Name | ast.Attribute]]:
    """Where the files have this name, or an attribute of this name."""
    for code in files.codes(name):
        yield from ((code, node) for node in code.every(ast.Name) if node.id == name)
        yield from ((code, node) for node in code.every(ast.Attribute) if node.attr == name)


def _call_of(code: Code, node: ast.expr) -> ast.Call | None:
    """The call whose function this is."""
    call = code.parents.get(node)
    return call if isinstance(call, ast.Call) and call.func is node else None


def _calls_of_module(files: Files, owner: ast.ClassDef) -> list[tuple[Code, ast.Call, bool]] | None:
    """All calls of modules of this class; None if one is not bound to a name when it is made, or is passed around."""
    names: set[str] = set()
    for home, node in _mentions(files, owner.name):
        call = _call_of(home, node)
        parent = home.parents.get(call) if call is not None else None
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        if not isinstance(target, ast.Name | ast.Attribute):
            return None
        names.add(ast.unparse(target).split(".")[-1])
    found: list[tuple[Code, ast.Call, bool]] = []
    for home, node in (mention for name in names for mention in _mentions(files, name)):
        call = _call_of(home, node)
        if call is not None:
            found.append((home, call, True))
        elif isinstance(node.ctx, ast.Load) and not isinstance(home.parents.get(node), ast.Attribute):
            return None  # `net.parameters()` does not call the module
    return found
