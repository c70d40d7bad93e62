"""What Python itself does with abstract values: builtins, containers, iteration, comparison, truth."""

from outplace.source.python_model.containers import (
    delete_item,
    extend,
    is_exact,
    item,
    iterate,
    method,
    set_item,
    spread,
    unpacked,
)
from outplace.source.python_model.libraries import call_outside, outside
from outplace.source.python_model.values import as_key, binary, builtin, compare, hashable, truth, unary

__all__ = [
    "as_key",
    "binary",
    "builtin",
    "call_outside",
    "compare",
    "delete_item",
    "extend",
    "hashable",
    "is_exact",
    "item",
    "iterate",
    "method",
    "outside",
    "set_item",
    "spread",
    "truth",
    "unary",
    "unpacked",
]
