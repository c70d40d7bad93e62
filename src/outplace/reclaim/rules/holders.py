"""Who else could read a tensor that would be overwritten? Reads the source, so it covers paths that did not run."""

from __future__ import annotations

import ast
from weakref import WeakKeyDictionary

from outplace.knowledge.by_hand import PASSES_ITS_INPUT
from outplace.knowledge.traits import has
from outplace.model import Site
from outplace.reclaim.observe.recording import Instruction, Operation, Recording
from outplace.repair.facts.aliases import facts_of_value
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files

_SIMPLE = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return
_nodes: WeakKeyDictionary[Code, dict[Instruction, ast.expr | ast.stmt | None]] = WeakKeyDictionary()
"""A cache: the nodes of a file by instruction. A line runs many times."""


def node_at(files: Files, instruction: Instruction) -> tuple[Code, ast.expr | ast.stmt] | None:
    """The expression of a bytecode instruction."""
    code = files.code(instruction[0])
    if code is None:
        return None
    nodes = _nodes.setdefault(code, {})
    if instruction not in nodes:
        file, line, end_line, column, end_column = instruction
        nodes[instruction] = code.at(Site(file, line, end_line, column, end_column, "", ""))
    node = nodes[instruction]
    return (code, node) if node is not None else None


def site_of(code: Code, node: ast.expr | ast.stmt) -> Site:
    """The site of a syntax node."""
    function = code.function(node)
    name = getattr(function, "name", "<lambda>") if function is not None else "<module>"
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Site(code.path, node.lineno, end_line, node.col_offset, end_column, name, code.segment(node))


def may_overwrite(files: Files, code: Code, operand: ast.expr) -> bool:
    """Does nothing else hold the value of this expression, on any path?"""
    if isinstance(operand, ast.BinOp | ast.UnaryOp):
        return True
    statement = code.statement(operand)
    if statement is None:
        return False
    if isinstance(operand, ast.Name):
        loads = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == operand.id and n is not operand]
        if not isinstance(statement, _SIMPLE) or any(isinstance(load.ctx, ast.Load) for load in loads):
            return False  # the statement reads it twice
    return isinstance(operand, ast.Call | ast.Name) and _is_unused_later(files, code, operand)


def made_by_own_functions(files: Files, recording: Recording, maker: Operation, user: Operation) -> bool:
    """Do all functions between the maker of a tensor and its user return a tensor that they made themselves?"""
    if maker.calls:
        kind = recording.modules[maker.calls[0].module].kind
        if has(f"nn.{kind}", "may_share") or kind in PASSES_ITS_INPUT:
            return False
    inner, outer = recording.places[maker.place], recording.places[user.place]
    for instruction in inner[: max(0, len(inner) - len(outer))]:
        place = node_at(files, instruction)
        function = place[0].function(place[1]) if place is not None else None
        if place is None or function is None or isinstance(function, ast.Lambda):
            return False
        if not _returns_own_tensors(files, place[0], function):
            return False
    return True


def _returns_own_tensors(files: Files, code: Code, function: Function) -> bool:
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and code.function(n) is function]
    return all(item.value is None or _is_unused_later(files, code, item.value) for item in returns)


def _is_unused_later(files: Files, code: Code, value: ast.expr) -> bool:
    """Is the tensor never read after this, whatever function is the caller?"""
    return facts_of_value(files, code, value, for_any_caller=True).may_rebind == "yes"
