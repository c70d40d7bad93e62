"""What an object computes from its weights when it is made, and goes on using: computed again where it is used."""

from __future__ import annotations

import ast
import re

from outplace.repair.facts.attributes import is_built_once
from outplace.repair.forms.step_order.forward import is_forward
from outplace.repair.forms.step_order.lines import lines_before, names_bound_within
from outplace.repair.forms.step_order.order import Order, Reordering
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds


def built_anew(order: Order, files: Files) -> Reordering | None:
    """`self.penalty = self.net.weight.pow(2).sum()` of an `__init__`: that line again, before it is read."""
    names = dict.fromkeys(path.split(".")[-1] for path in order.moment.held if "." in path)
    for name in names:
        if not is_built_once(files, name):
            continue
        made, reader = _value_of(files, name), _only_reader(files, name)
        if made is None or reader is None:
            continue
        (home, value, used), (code, statement, owner) = made, reader
        if code is not home and used - {"self", "torch"}:
            continue  # names of another file
        again = re.sub(r"\bself\b", owner, value)
        edit = lines_before(code, statement, [f"{owner}.{name} = {again}"])
        if edit is not None:
            title = f"Compute `{owner}.{name}` anew in each round, with the weights of the round"
            return Reordering(title, "earlier", [edit], code.path)
    return None


def _value_of(files: Files, name: str) -> tuple[Code, str, set[str]] | None:
    """What the only assignment to it says, with its names, if nothing is in it that only the `__init__` knows."""
    path = f"self.{name}"
    made = [(code, node) for code in files.codes(name) for node in code.every(ast.Assign) if binds(node, path)]
    code, assigned = made[0] if len(made) == 1 else (None, None)
    home = code.function(assigned) if code is not None and assigned is not None else None
    if code is None or assigned is None or not isinstance(home, ast.FunctionDef) or len(assigned.targets) != 1:
        return None
    own = {arg.arg for arg in ast.walk(home.args) if isinstance(arg, ast.arg)} - {"self"}
    own |= {bound for one in home.body for bound in names_bound_within(one)}
    used = {node.id for node in ast.walk(assigned.value) if isinstance(node, ast.Name)}
    return (code, code.segment(assigned.value), used) if is_forward(code, assigned) and not used & own else None


def _only_reader(files: Files, name: str) -> tuple[Code, ast.stmt, str] | None:
    """The one statement that reads it, and whose attribute it is there."""
    read = [
        (code, node)
        for code in files.codes(name)
        for node in code.every(ast.Attribute)
        if node.attr == name and isinstance(node.ctx, ast.Load)
    ]
    found = {(code, code.statement(node), ast.unparse(node.value)) for code, node in read}
    if len(found) != 1:
        return None
    ((code, statement, owner),) = found
    plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return)
    if statement is None or not plain or not re.fullmatch(r"[\w.]+", owner):
        return None
    return None if owner.split(".")[0] in names_bound_within(statement) else (code, statement, owner)
