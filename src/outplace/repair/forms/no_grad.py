"""Statements under `torch.no_grad()`, where a parameter stays a leaf, or out of it, where a view may be written."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

from outplace.repair.syntax.code import Code, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import reads_any
from outplace.repair.syntax.moves import pasted, removed

_SIMPLE = ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return


def wrapped(code: Code, statements: list[ast.stmt], mode: str = "no_grad") -> list[Edit] | None:
    """Puts neighbouring statements into one block, or into a block that ends just before them."""
    first, last = statements[0], statements[-1]
    if not all(isinstance(statement, _SIMPLE) for statement in statements):
        return None
    if not code.begins_line(first) or ";" in code.lines[(last.end_lineno or 1) - 1].split("#")[0]:
        return None
    start_line, end_line = first.lineno, last.end_lineno or last.lineno
    inside_text = _lines_in_strings(code)
    indent = code.indent(first)
    lines = code.lines[start_line - 1 : end_line]
    if any(number in inside_text for number in range(start_line, end_line + 1)):
        return None
    unit = "\t" if "\t" in indent else "    "
    block = code.block(first)
    index = block.index(first)
    before = block[index - 1] if index else None
    edits = [
        Edit(code.offset(start_line + i, 0), code.offset(start_line + i, 0), unit)
        for i, line in enumerate(lines)
        if line.strip()
    ]
    if mode == "no_grad" and before is not None and is_no_grad(before) and _adjacent(code, before, first):
        return edits
    torch = code.module_name("torch") or "torch"
    head = Edit(code.offset(start_line, 0), code.offset(start_line, 0), f"{indent}with {torch}.{mode}():\n{unit}")
    return [*code.importing("torch"), head, *edits[1:]]


def decorated_step(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`@torch.no_grad()` for the `step` of an optimizer; None if it has one, or may run code that needs grad."""
    function, owner = code.function(statement), code.class_of(statement)
    if not isinstance(function, ast.FunctionDef) or function.name != "step" or owner is None:
        return None
    of_optimizer = any("Optimizer" in ast.unparse(base) for base in owner.bases)
    parameters = {arg.arg for arg in (*function.args.args[1:], *function.args.kwonlyargs)}
    used = {node.id for item in function.body for node in ast.walk(item) if isinstance(node, ast.Name)}
    asked = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    needs_grad = parameters & used or asked & {"backward", "grad_fn", "enable_grad", "autograd", "closure", "step"}
    if not of_optimizer or function.decorator_list or needs_grad or not code.begins_line(function):
        return None
    start = code.offset(function.lineno, 0)
    torch = code.module_name("torch") or "torch"
    return [*code.importing("torch"), Edit(start, start, f"{code.indent(function)}@{torch}.no_grad()\n")]


def moved_out(code: Code, block: ast.With, statement: ast.Assign) -> list[Edit] | None:
    """Moves a statement out of a block: after the block, or in its place if the block has nothing else."""
    rest = [item for item in block.body if item is not statement]
    names = [ast.unparse(target) for target in statement.targets]
    if not (code.begins_line(statement) and code.begins_line(block)) or statement.lineno == block.lineno:
        return None
    if reads_any(rest, names):
        return None
    text = code.segment(statement)
    if not rest:
        return [code.replaced(block, text)] if "#" not in code.segment(block).replace(text, "") else None
    if statement is block.body[-1]:
        return None
    return [removed(code, statement), pasted(code, block, [f"{code.indent(block)}{text}"])]


def with_grad(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """Takes a statement out of a function's `no_grad`: the decorator goes if there is nothing else in the function."""
    function = code.function(statement)
    modes = [mode for mode in getattr(function, "decorator_list", ()) if ast.unparse(mode).endswith(_NO_GRAD)]
    inside = any(is_no_grad(outer) for outer in code.above(statement))
    is_out = any(is_no_grad(outer, "enable_grad") for outer in code.above(statement))
    if function is None or is_out or not (modes or inside):
        return None
    if modes and not inside and getattr(function, "body", None) == [statement]:
        first, last = modes[0].lineno, modes[0].end_lineno or modes[0].lineno
        return [Edit(code.offset(first, 0), code.offset(last + 1, 0), "")]
    return wrapped(code, [statement], "enable_grad")


_NO_GRAD = ("no_grad()", "no_grad")


def _adjacent(code: Code, before: ast.stmt, first: ast.stmt) -> bool:
    return not any(line.strip() for line in code.lines[(before.end_lineno or 0) : first.lineno - 1])


def is_no_grad(node: ast.AST, mode: str = "no_grad") -> bool:
    """Is it `with torch.no_grad():` (or another mode) and nothing else?"""
    return (
        isinstance(node, ast.With)
        and len(node.items) == 1
        and ast.unparse(node.items[0].context_expr).endswith(f"{mode}()")
    )


def _lines_in_strings(code: Code) -> set[int]:
    """Lines that begin inside a string. Their indentation is part of the string."""
    found: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(code.text).readline):
            if token.end[0] > token.start[0] and token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT):
                found.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return set(range(len(code.lines) + 1))
    return found


def instead_of_inference(files: Files) -> Iterator[tuple[str, list[Edit]]]:
    """Replaces each `torch.inference_mode()` of these files, a decorator or a `with`, by `torch.no_grad()`."""
    for code in files.codes("inference_mode"):
        for node in ast.walk(code.tree):
            if isinstance(node, ast.Attribute) and node.attr == "inference_mode" and is_library(node.value):
                call = code.parents.get(node)
                plain = not isinstance(call, ast.Call) or not (call.args or call.keywords)
                end = code.span(node)[1]
                yield code.path, [Edit(end - len(node.attr), end, "no_grad")] if plain else []
