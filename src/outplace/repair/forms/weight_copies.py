"""Copies of a module's weights for one forward: `torch.func.functional_call(net, copies, (x,))`.

What is written to the weights afterwards does not reach what the backward of this forward needs. Losses and gradients
are those of the program as it was meant. If nothing trains the weights, what the module returns can be detached.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from outplace.repair.facts.aliases import span_of
from outplace.repair.facts.bug import Bug
from outplace.repair.facts.callees import functions_of, functions_within, runs
from outplace.repair.forms.saver import only_computes
from outplace.repair.syntax.code import Code, Function, is_library, whole_of
from outplace.repair.syntax.edits import Edit, united
from outplace.repair.syntax.files import Files

ModuleCalls = list[tuple[Code, ast.Call]]
_NAMED = ast.Name | ast.Attribute | ast.Subscript | ast.Constant | ast.expr_context
_DEEPEST = 4
"""How many modules inside each other are looked through."""


def module_calls(files: Files, bug: Bug) -> tuple[ModuleCalls, ModuleCalls]:
    """The calls of modules in which all that saved the weight has run: the innermost ones, and the outermost ones.

    Nothing if an operation has not run in a module.
    """
    inner: ModuleCalls = []
    outer: ModuleCalls = []
    for site, _ in bug.savers:
        code = files.code(site.file)
        node = code.at(site) if code is not None else None
        levels = list(_levels(files, code, node, _DEEPEST)) if code is not None and node is not None else []
        if not levels:
            return [], []
        inner += [call for call in _of_weight(bug, levels[0]) if call not in inner]
        outer += [call for call in _of_weight(bug, levels[-1]) if call not in outer]
    return inner, outer


def _of_weight(bug: Bug, calls: ModuleCalls) -> ModuleCalls:
    """Those whose module holds the weight, which a run has found as `model.target[0].weight`; all if none does."""
    path = re.findall(r"\w+", bug.tensor or "")
    return [(code, call) for code, call in calls if _name(call.func) in path] or calls


def _name(module: ast.expr) -> str:
    return ast.unparse(whole_of(module)).split(".")[-1]


def _levels(files: Files, code: Code, node: ast.AST, depth: int) -> Iterator[ModuleCalls]:
    """The calls of modules around an operation, from the inside out."""
    inside = [node] if isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp) else ast.walk(node)
    called = [part for part in inside if isinstance(part, ast.Call) and _is_of_module(files, code, part)]
    if called:
        yield [(code, call) for call in called]
    function = code.function(node)
    if not isinstance(function, Function) or depth == 0:
        return
    above = [
        (home, call)
        for home in map(files.code, files.paths)
        for call in (home.every(ast.Call) if home is not None else ())
        if home is not None and call is not node and runs(files, home, call, code, function)
    ]
    levels = [list(_levels(files, home, call, depth - 1)) for home, call in above]
    for level in range(min(map(len, levels), default=0)):
        yield [call for one in levels for call in one[level]]


def _is_of_module(files: Files, code: Code, call: ast.Call) -> bool:
    """Does it call a module, by a name that can be written twice?"""
    function = call.func
    if not all(isinstance(part, _NAMED) for part in ast.walk(function)) or is_library(function):
        return False
    facts = files.inquiry.call(span_of(code, call))
    if not facts.functions:
        return bool(facts.layers)
    found = functions_of(files, code, call) or []
    by_name = isinstance(function, ast.Attribute) and function.attr == "forward"
    return bool(found) and not by_name and all(one.name == "forward" for _, one, _ in found)


def only_compute(files: Files, calls: ModuleCalls) -> bool:
    """Do the modules write nothing themselves? What they write to a weight would go to its copy."""
    return all(only_computes(function) for code, call in calls for _, function in functions_within(files, code, call))


def named(calls: ModuleCalls) -> str:
    """The modules, for a title."""
    return " and ".join(dict.fromkeys(f"`{code.segment(call.func)}`" for code, call in calls))


def with_copies(calls: ModuleCalls) -> dict[str, tuple[Edit, ...]]:
    """Each of the modules runs with copies of its weights."""
    return united({code.path: [*code.importing("torch"), *_copied(code, call)]} for code, call in calls)


def _copied(code: Code, call: ast.Call) -> list[Edit]:
    torch = code.module_name("torch") or "torch"
    start, opened = code.span(call.func)
    end = code.span(call)[1]
    module = code.segment(call.func)
    copies = f"{{name: weight.clone() for name, weight in {module}.named_parameters()}}"
    head = Edit(start, start, f"{torch}.func.functional_call(")
    if call.keywords:
        given = "".join(f"{code.segment(argument)}, " for argument in call.args)
        named = (f"{word.arg!r}: " if word.arg else "**" for word in call.keywords)
        options = ", ".join(name + code.segment(word.value) for name, word in zip(named, call.keywords, strict=True))
        return [head, Edit(opened, end, f", {copies}, ({given}), {{{options}}})")]
    if not call.args:
        return [head, Edit(opened, end, f", {copies}, ())")]
    first, last = code.span(call.args[0])[0], code.span(call.args[-1])[1]
    return [head, Edit(opened, first, f", {copies}, ("), Edit(last, end, "))" if len(call.args) > 1 else ",))")]


def detached(calls: ModuleCalls) -> dict[str, tuple[Edit, ...]]:
    """What the modules return is detached."""
    return united({code.path: code.followed(".detach()", call)} for code, call in calls)
