"""Which step, or update by hand, and which backward a bug is about."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.model import Site
from outplace.repair.facts.aliases import calls_of
from outplace.repair.facts.bug import Bug, Moment
from outplace.repair.forms.step_order.forward import assignments_behind, runs
from outplace.repair.forms.step_order.order import statement_at
from outplace.repair.syntax.calls import called_names
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import names_in

_DEEPEST, _MOST_CALLS = 3, 3
"""How many levels of callers are searched for a write, and how many callers a function may have."""


def moments(files: Files, bug: Bug) -> Iterator[Moment]:
    """The step that wrote and the backward after it; or, from the source, updates and backwards of one function."""
    by_optimizer = any(_by_optimizer(files, site) for site in bug.writes)
    if by_optimizer and bug.moment is not None:
        yield bug.moment if bug.from_run else _of_the_writer(files, bug, bug.moment)
        return
    for site in bug.writes:
        for code, update in statements_leading_to(files, site):
            if bug.raised_at is not None:
                backwards = [node for home, node in statements_leading_to(files, bug.raised_at) if home is code]
            else:
                backwards = [
                    statement
                    for node in ast.walk(code.scope(update))
                    if isinstance(node, ast.Attribute) and node.attr == "backward"
                    if (statement := code.statement(node)) is not None
                ]
            for backward in backwards:
                together = code.scope(backward) is code.scope(update) and backward is not update
                if together and (by_optimizer or not _is_before_the_forward(files, code, update, backward)):
                    yield Moment(code.path, update.lineno, backward.lineno, by_optimizer=by_optimizer)


def _is_before_the_forward(files: Files, code: Code, update: ast.stmt, backward: ast.stmt) -> bool:
    """Do all networks of this loss run after the update? Then another update is the cause."""
    found = assignments_behind(code, backward, names_in(backward))
    lines = [assignment.lineno for assignment in found if runs(files, code, assignment)]
    return bool(lines) and min(lines) > update.lineno


def _of_the_writer(files: Files, bug: Bug, moment: Moment) -> Moment:
    """The step that wrote, if it is in the function of the last step."""
    code, site = files.code(moment.file), bug.writes[0]
    if code is None or site.file != moment.file or site.line == moment.step_line:
        return moment
    own, last = statement_at(code, site.line, "step"), statement_at(code, moment.step_line, "step")
    if own is None or last is None or code.scope(own) is not code.scope(last):
        return moment
    return replace(moment, step_line=site.line, loss_is_older=moment.loss_is_older and None)


def _by_optimizer(files: Files, site: Site) -> bool:
    """Did an optimizer write, not an update by hand? A `step` that calls backward belongs to the training code."""
    code = files.code(site.file)
    statement = statement_at(code, site.line) if code is not None else None
    if code is None or statement is None:
        return site.function.split(".")[-1] == "step"
    function = code.function(statement)
    trains = isinstance(function, Function) and "backward" in called_names(function)
    return "step" in called_names(statement) or (site.function.split(".")[-1] == "step" and not trains)


def statements_leading_to(files: Files, site: Site) -> Iterator[tuple[Code, ast.stmt]]:
    """The statement of a site, and the statements that call its function, if there are only a few calls."""
    code = files.code(site.file)
    statement = statement_at(code, site.line) if code is not None else None
    if code is not None and statement is not None:
        yield from _upwards(files, code, statement, _DEEPEST)


def _upwards(files: Files, code: Code, statement: ast.stmt, depth: int) -> Iterator[tuple[Code, ast.stmt]]:
    yield code, statement
    function = code.function(statement)
    calls = calls_of(files, code, function) if isinstance(function, Function) and depth > 1 else None
    if calls is None or len(calls) > _MOST_CALLS:
        return
    for home, call, _ in sorted(calls, key=lambda item: item[1].lineno):
        above = home.statement(call)
        if above is not None:
            yield from _upwards(files, home, above, depth - 1)
