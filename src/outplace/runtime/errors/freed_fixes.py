"""Where to detach a tensor that one step passes to the next, as diffs.

Detaching changes what is trained: gradients no longer reach earlier steps. So all of these fixes need a review.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Literal

import torch

from outplace.files.naming import under_cwd
from outplace.model import Fix
from outplace.repair.syntax import edits
from outplace.repair.syntax.code import Code, whole_of
from outplace.repair.syntax.edits import Conflict, Edit, unified_diff
from outplace.runtime.errors.freed_names import Keeper, Kept, value_of
from outplace.runtime.locate import sites

Story = Literal["carried", "once", "cached", "shared", "same"]
"""How a backward enters a freed graph.

Through the state of the step before, a value computed once, a weight cached by `parametrize.cached()`, two losses of
one forward, or one loss twice.
"""

_KEEP_VALUES = "Take `.detach()` of it where it is kept for the next step, or where the next step takes it up."
_ANEW = "If it is to be trained: compute {name} again in every step."
_CONSTANT = "If it is not: take `.detach()` of it where it is computed."
_CACHED_ANEW = "Enter `with parametrize.cached():` in every step, inside the loop: {name} is then computed again."
_ADD = "Add the losses and run one backward: `(first + second).backward()`."
_CUT_ONE = "Use `{name}.detach()` in the loss that is not to train what {name} was computed from."
_BOTH_FIRST = "Run both backwards before the optimizers step."
_RETAIN = "Give the first backward `retain_graph=True`: no optimizer has changed since what both go through."
_LOSS_ANEW = "Compute the loss again before each backward, or run backward once."
_TWICE = "Give the first backward `retain_graph=True`, where the same gradient is meant to be added twice."
_FOR_THE_LOG = (
    "If the sum is only for the log: add `.detach()` (or `.item()`) of each loss to it, and run backward on the loss "
    "of this step alone."
)


def advice(story: Story, name: str | None, cut: Iterable[Fix], stepped: bool, stepped_below: bool) -> tuple[Fix, ...]:
    """The advice in words. It leaves out what a diff already shows.

    `stepped`: an optimizer has stepped since. `stepped_below`: it changed what the tensor was computed from.
    """
    told: list[str] = []
    if story == "carried":
        told = [] if any(fix.diff for fix in cut) else [_KEEP_VALUES]
    elif story == "once":
        told = [_ANEW, _CONSTANT]
    elif story == "cached":
        told = [_CACHED_ANEW]
    elif story == "same":
        told = [_LOSS_ANEW, _TWICE]
    else:
        told += [] if stepped else [_ADD]
        told += [_CUT_ONE] if name else []
        told += [_BOTH_FIRST if stepped_below else _RETAIN]
    return tuple(Fix(text.format(name=name or "it"), "suggestion") for text in told)


def for_kept(kept: Kept) -> tuple[Fix, ...]:
    """The fix at the line that stores the tensor, if it can be written."""
    keeper = kept.keeper
    if keeper is None:
        return ()
    fixes = []
    code = sites.code_of(keeper.filename)
    found = None if code is None else _in_loop(code, keeper) if keeper.frame else _in_function(code, keeper, kept)
    if code is not None and found is not None:
        title, changes = found
        diff = _diff(code, changes)
        fixes = [Fix(f"{title}; gradients no longer reach into earlier steps", "unsafe", diff)] if diff else []
    if isinstance(keeper.statement, ast.AugAssign) and kept.tensor.shape == ():
        fixes.append(Fix(_FOR_THE_LOG, "suggestion"))
    return tuple(fixes)


def _diff(code: Code, changes: Iterable[Edit]) -> str:
    try:
        text = edits.apply(code.text, changes)
    except Conflict:
        return ""
    return unified_diff(under_cwd(code.path), code.text, text, context=1) if edits.parses(text) else ""


# -- in the loop that goes backward ------------------------------------------------------------------------------------


def _in_loop(code: Code, keeper: Keeper) -> tuple[str, list[Edit]] | None:
    """The fix goes after the backward, or after the line that stores the tensor if that comes later."""
    assert keeper.frame is not None
    name, value = keeper.name, value_of(whole_of(keeper.target), keeper.frame)
    backward = sites.at_instruction((keeper.frame.f_code, keeper.frame.f_lasti)).statement
    cut = _detached(name, value)
    if cut is None or backward is None:
        return None
    last = max(backward, keeper.statement, key=lambda statement: statement.lineno)
    edit = _line_after(code, last, f"{name} = {cut}")
    return None if edit is None else (f"Cut {name} out of its graph at the end of each step", [edit])


def _detached(name: str, value: Any) -> str | None:
    """The source text of the same value without its graph."""
    if isinstance(value, torch.Tensor):
        return f"{name}.detach()"
    parts = value.values() if isinstance(value, dict) else value
    if type(value) not in (tuple, list, dict) or not all(isinstance(part, torch.Tensor) for part in parts):
        return None
    if isinstance(value, dict):
        return f"{{key: part.detach() for key, part in {name}.items()}}"
    return (
        f"tuple(part.detach() for part in {name})"
        if isinstance(value, tuple)
        else f"[part.detach() for part in {name}]"
    )


def _line_after(code: Code, statement: ast.stmt, text: str) -> Edit | None:
    line = statement.end_lineno or statement.lineno
    end = code.span(statement)[1]
    rest = code.lines[line - 1]
    stop = code.offset(line, len(rest.encode()))
    if not code.begins_line(statement) or code.text[end:stop].split("#")[0].strip():
        return None
    return Edit(stop, stop, f"\n{code.indent(statement)}{text}")


# -- in the function that stores it ------------------------------------------------------------------------------------


def _in_function(code: Code, keeper: Keeper, kept: Kept) -> tuple[str, list[Edit]] | None:
    """The fix goes where the tensor is read again if its name gets a new one at each step, else where it is stored."""
    if isinstance(keeper.statement, ast.Assign) and not isinstance(keeper.target, ast.Subscript):
        used = kept.used.statement if kept.used and kept.used.filename == keeper.filename else None
        read = [] if used is None else [node for node in ast.walk(used) if _is_read(node, keeper.name)]
        changes = [_detach(code, node) for node in read if isinstance(node, ast.expr)]
        title = f"Use {keeper.name} without the graph of the step before"
        return (title, changes) if changes else None
    changes = [_detach(code, node) for node in _put_in(keeper.statement)]
    return (f"Keep the values in {keeper.name} without their graph", changes) if changes else None


def _is_read(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == name


def _put_in(statement: ast.stmt) -> list[ast.expr]:
    """The values that a statement writes or stores."""
    if isinstance(statement, ast.Assign | ast.AugAssign):
        value = statement.value
        return list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.args if isinstance(call, ast.Call) and len(call.args) == 1 else []


def _detach(code: Code, node: ast.expr) -> Edit:
    text = code.segment(node)
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return code.replaced(node, f"{text}.detach()" if plain else f"({text}).detach()")
