"""A copy for the backward: `x.clone() * y` saves a tensor that nothing writes. The program's values do not change.

If the operation saves an operand, that operand is cloned. If it saves its result, the result is cloned.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from outplace.repair.facts.aliases import facts_of_value, span_of
from outplace.repair.facts.callees import runs
from outplace.repair.facts.location import target_of
from outplace.repair.syntax.calls import is_inplace_call
from outplace.repair.syntax.code import Code, Function, is_library, root_of, whole_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, earlier_statements
from outplace.source.facts import Span

RESULTS = ("result", "output", "out", "result0", "_saved_result", "grad_input_mask")


def operands(node: ast.expr | ast.stmt) -> list[ast.expr]:
    """The operands of an operation that may be tensors."""
    if isinstance(node, ast.BinOp):
        found = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        found = [node.left, *node.comparators]
    elif isinstance(node, ast.UnaryOp):
        found = [node.operand]
    elif isinstance(node, ast.AugAssign):
        found = [node.value]
    elif isinstance(node, ast.Call):
        written = target_of(node)
        found = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        found += [keyword.value for keyword in node.keywords if keyword.arg]
        if isinstance(node.func, ast.Attribute) and not is_library(node.func.value) and not _calls_module(node.func):
            found.insert(0, node.func.value)
        found = [operand for operand in found if operand is not written]  # a copy would not be the tensor that is meant
    else:
        return []
    return [
        operand
        for operand in found
        if isinstance(operand, ast.Name | ast.Attribute | ast.Subscript) or _is_getter_call(operand)
    ]


def _is_getter_call(node: ast.expr) -> bool:
    """`self.memory.get()`: a method without arguments may return a stored tensor."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords)


def _calls_module(function: ast.Attribute) -> bool:
    """`self.fc(x)`, `net.head(x)`, `SwishFn.apply(x)`: what comes before the dot is not an operand."""
    return (isinstance(function.value, ast.Name) and function.value.id in ("self", "super")) or (
        function.attr == "apply" and isinstance(function.value, ast.Name) and function.value.id[:1].isupper()
    )


def operations(code: Code, node: ast.expr | ast.stmt) -> list[ast.expr | ast.stmt]:
    """The operation at a site; for a whole statement, or a chain of operators, also those inside it."""
    inside: list[ast.expr | ast.stmt] = [node]
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp | ast.UnaryOp | ast.Call | ast.Compare) and part is not node:
            inside.append(part)
    return inside


@dataclass(frozen=True)
class Clone:
    """A copy of one operand. `named`: it has the name of the written tensor, so it is certainly a tensor."""

    text: str
    edit: Edit
    named: bool
    operand: ast.expr


_FIRST, _SECOND = ("self", "input", "mat1"), ("other", "mat2", "vec")


def operand_clones(code: Code, node: ast.expr | ast.stmt, tensors: Iterable[str], saved_as: str = "") -> list[Clone]:
    """A copy for each operand: first those with the name of the written tensor, then the one that a run saw saved."""
    found: dict[tuple[int, int], ast.expr] = {}
    for operation in operations(code, node):
        for operand in operands(operation):
            found.setdefault(code.span(operand), operand)
    names = set(tensors)
    roots = {name.split("[")[0].removesuffix(".data") for name in names}
    attributes = {name.rpartition(".")[2] for name in roots if "." in name}

    def distance(operand: ast.expr) -> int:
        if isinstance(operand, ast.Call):
            return 3
        text = ast.unparse(operand)
        root = root_of(operand)
        same = isinstance(root, ast.Attribute) and root.attr in attributes  # `self.queue.bank`, written as `self.bank`
        return 0 if text in names else 1 if text in roots else 2 if same or ast.unparse(root) in roots else 3

    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    kept = sides[:1] if saved_as in _FIRST else sides[1:] if saved_as in _SECOND else ()
    ordered = sorted(found.values(), key=lambda operand: (distance(operand), operand not in kept, code.span(operand)))
    return [
        Clone(code.segment(item), _cloned(code, item), distance(item) < 3, item)
        for item in ordered
        if not (_is_class(item) or is_number(code, item) or code.is_cloned(item))
    ]


_COMPUTING = ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare | ast.AugAssign | ast.Subscript


def kept_operands(code: Code, node: ast.AST, trail: Collection[Span]) -> list[ast.expr]:
    """The operands of an operation that gave the written memory, as the analysis has followed it.

    Of `x.view(-1).exp()` that is `x.view(-1)`, not `x`. The tensor that the operation itself writes is none of them.
    Nor is what a statement only gives another name, as in `y = x if c else f(x)`: that name may need the write.
    """
    found: list[ast.expr] = []
    waiting = [(node, False)]
    while waiting:
        operation, is_inside = waiting.pop()
        is_inside = is_inside or isinstance(operation, _COMPUTING)
        written = target_of(operation) if isinstance(operation, ast.Call) else None
        for child in ast.iter_child_nodes(operation):
            if isinstance(getattr(child, "ctx", None), ast.Store | ast.Del):
                continue  # what is assigned to is written: a copy of it would get the write
            if is_inside and isinstance(child, ast.expr) and span_of(code, child) in trail:
                found += [child] if child is not written else []
            elif child is not written:
                waiting.append((child, is_inside))
    return sorted(found, key=code.span)


@dataclass(frozen=True)
class Given:
    """A copy for a function that saves its argument for backward. `sure`: it does nothing else with it."""

    function: str
    edits: tuple[Edit, ...]
    sure: bool


def given_copies(files: Files, code: Code, statement: ast.stmt, path: str, home: Code, node: ast.AST) -> Given | None:
    """`f(x.clone())`, if the operation that saves `x` or a part of it is in `f`, and `x` is written after the call."""
    function = home.function(node)
    if not isinstance(function, ast.FunctionDef) or code.function(statement) is function:
        return None
    edits: list[Edit] = []
    sure = True
    for item in (*earlier_statements(code, statement), statement):
        for call in (part for part in ast.walk(item) if isinstance(part, ast.Call) and code.statement(part) is item):
            if not runs(files, code, call, home, function):
                continue
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            edits += [_cloned(code, argument) for argument in arguments if _is_part(argument, path)]
            sure = sure and path not in facts_of_value(files, code, call).names and only_computes(function)
    return Given(function.name, tuple(edits), sure) if edits else None


def _is_part(node: ast.expr, path: str) -> bool:
    return ast.unparse(whole_of(node)) == path


def only_computes(function: Function) -> bool:
    """Does it neither write nor store its arguments?"""
    for node in ast.walk(function):
        stored = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        if stored or isinstance(node, ast.AugAssign | ast.Yield | ast.Global | ast.Nonlocal):
            return False
        if isinstance(node, ast.Call) and (is_inplace_call(node) or _keeps(node)):
            return False
    return True


def _keeps(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add", "extend", "insert", "update")


def _is_class(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id[:1].isupper() and len(node.id) > 1 and not node.id.isupper()


def is_number(code: Code, node: ast.expr) -> bool:
    """A loop counter, or a name that is only bound to numbers."""
    if not isinstance(node, ast.Name):
        return False
    assignments = [item for item in ast.walk(code.scope(node)) if binds(item, node.id)]
    return bool(assignments) and all(_gives_number(new_value) for new_value in assignments)


def _gives_number(statement: ast.AST) -> bool:
    if isinstance(statement, ast.For):
        counted = isinstance(statement.iter, ast.Call) and ast.unparse(statement.iter.func) == "range"
        return counted and isinstance(statement.target, ast.Name)
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Assign) and isinstance(value, ast.Constant)


def _cloned(code: Code, operand: ast.expr) -> Edit:
    return code.followed(".clone()", operand)[0]


def _is_taken_apart(code: Code, node: ast.expr) -> bool:
    """Are several names given its parts? It may be a tuple, which has no `clone`."""
    statement = code.statement(node)
    if not isinstance(statement, ast.Assign) or statement.value is not node:
        return False
    return any(isinstance(target, ast.Tuple | ast.List) for target in statement.targets)


def result_clone(code: Code, node: ast.expr | ast.stmt) -> list[Edit] | None:
    """A copy of the result; None if the operation has no result of its own."""
    if isinstance(node, ast.Assign | ast.Return | ast.AnnAssign) and node.value is not None:
        node = node.value
    if not isinstance(node, ast.expr) or isinstance(node, ast.Tuple | ast.List) or _is_taken_apart(code, node):
        return None
    if isinstance(node, ast.Call):
        return None if is_inplace_call(node) else code.cloned(node)
    return code.cloned(node) if isinstance(node, ast.BinOp | ast.UnaryOp) else None
