"""What each statement does to abstract values: one file a family."""

from __future__ import annotations

import ast
from typing import Any

from outplace.source.statements import assignments, branches, contexts, definitions, loops, names, simple
from outplace.source.statements.assignments import bind, set_attribute
from outplace.source.statements.definitions import make_function

__all__ = ["STATEMENTS", "bind", "make_function", "set_attribute"]

_FAMILIES = (assignments, branches, contexts, definitions, loops, names, simple)

STATEMENTS: dict[type[ast.stmt], Any] = {kind: run for family in _FAMILIES for kind, run in family.STATEMENTS.items()}
