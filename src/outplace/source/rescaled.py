"""Tensors that stay from step to step, and that each step normalises in place once more.

A round is what happens between two backwards. The second round does to the same memory what the first one did, and
nothing has filled the memory in between. Running averages decay, or add something that was computed: they are fine. So
are writes that change nothing the second time, as the division by a sum of one's own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.names import spellings
from outplace.knowledge.traits import has
from outplace.source.graph import Node, Path, Storage, Write


def rescaling_writes(reached: list[Node], rounds: list[int], path: Path) -> Iterator[Write]:
    """The writes of the present round that normalise once more what the graph computes with."""
    if len(rounds) < 2:
        return
    storages = {id(save.storage): save.storage for node in reached for save in node.saves if save.storage.writes}
    for storage in storages.values():
        yield from _of(storage, rounds[-2], rounds[-1], path)


def _of(storage: Storage, begin: int, end: int, path: Path) -> list[Write]:
    first = [write for write in storage.writes_since(begin) if write.time < end]
    second = storage.writes_since(end)
    if not second or storage.made > begin > 0 or not _are_alike(first, second, path):
        return []
    verdicts = [_verdict(write) for write in second]
    if None in verdicts:
        return []
    return [write for write, harms in zip(second, verdicts, strict=True) if harms]


def _are_alike(first: list[Write], second: list[Write], path: Path) -> bool:
    """Have both rounds made the same writes to the same tensor, whatever way the program took?"""
    if [write.place.node for write in first] != [write.place.node for write in second]:
        return False
    rounds = (*first, *second)
    same = len({id(write.anchor) for write in rounds}) == 1 and rounds[0].anchor is not None
    return all(write.detached and (write.certain or same) and set(write.path) <= set(path) for write in rounds)


def _verdict(write: Write) -> bool | None:
    """Does the write change something once more? None for one that is meant to be made again and again."""
    step, operand, target = step_of(write.operation), _operand(write.place.node), _start_of(write.target)
    if not step or operand is None or not target:
        return None
    scope = write.place.module.tree
    names = {ast.unparse(node) for node in ast.walk(operand) if isinstance(node, ast.Name | ast.Attribute)}
    definitions = _made(scope, write.place.node) if scope is not None else {}
    own = _is_own(operand, target, definitions)
    if step == "add":
        return True if own or _is_constant(operand) else None
    if own:
        return _has_power(operand, definitions)
    plain = isinstance(operand, ast.Attribute) or (isinstance(operand, ast.Name) and operand.id not in definitions)
    if not plain or target in names or spellings(write.operation)[0] in ("mul_", "multiply_"):
        return None
    return True


def _start_of(target: str) -> str:
    """`self.A` of `self.A.mul_(d)` and of `self.A[0]`."""
    return re.split(r"\[|\.\w+_\(", target, maxsplit=1)[0]


def _operand(node: ast.AST) -> ast.expr | None:
    """What the statement computes with: `m` of `x -= m` and of `x.sub_(m)`."""
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.AugAssign):
        return call.value
    return call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords else None


def _made(tree: ast.AST, statement: ast.AST) -> dict[str, ast.expr]:
    """What the names of the function are assigned, where that is one value."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inner = [node for node in functions if any(part is statement for part in ast.walk(node))]
    found: dict[str, ast.expr] = {}
    for node in ast.walk(inner[-1]) if inner else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def _is_own(node: ast.expr, target: str, made: dict[str, ast.expr], hops: int = 3) -> bool:
    """Is it computed of the written tensor and numbers alone?"""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if ast.unparse(node) == target:
            return True
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return False
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return all(isinstance(side, ast.Constant) or _is_own(side, target, made, hops) for side in sides)
    if not isinstance(node, ast.Name):
        return False
    return node.id == target or (hops > 0 and node.id in made and _is_own(made[node.id], target, made, hops - 1))


def _is_constant(node: ast.expr) -> bool:
    """`torch.eye(len(adj))`."""
    named = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return has(named, "one_number") or has(named, "identity")


def _has_power(node: ast.expr, made: dict[str, ast.expr], hops: int = 3) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and has(part.attr, "raises"):
            return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
            return True
        if isinstance(part, ast.Name) and hops and part.id in made and _has_power(made[part.id], made, hops - 1):
            return True
    return False
