"""What Python itself does with abstract values: builtins, containers, iteration, comparison, truth."""

from outplace.source.contents import as_key, delete_item, extend, hashable, is_exact, item, set_item, spread, truth
from outplace.source.python_model.containers import another, iterate, method, unpacked
from outplace.source.python_model.libraries import MODELLED, call_outside, outside
from outplace.source.python_model.values import binary, builtin, compare, computed, unary

__all__ = [
    "MODELLED",
    "another",
    "as_key",
    "binary",
    "builtin",
    "call_outside",
    "compare",
    "computed",
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
