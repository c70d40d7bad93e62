"""What a write does to the values that are there: how a gradient passes it, and what a second one makes of them.

Backward must be told of those that a gradient passes otherwise than a copy. A sum has the derivative of a copy, and so
has a remainder. What rounds, takes the sign or copies is mostly meant to be passed by (a straight-through estimator).
"""

from __future__ import annotations

from collections.abc import Iterable

from outplace.knowledge.names import spellings

_SCALING = frozenset(
    ("mul_", "multiply_", "div_", "divide_", "true_divide_", "pow_", "exp_", "log_", "sqrt_", "square_", "tanh_",
     "sigmoid_", "neg_")
)  # fmt: skip
_BOUNDING = frozenset(("clamp_", "clamp_min_", "clamp_max_", "clip_", "relu_", "abs_"))
"""What they have done once they do not do again."""
_SHIFTING = frozenset(("sub_", "subtract_", "floor_divide_"))
"""Gradients pass as through a copy, or not at all. (Those that add are left out: what they write may be a sum.)"""
_RATIOS = frozenset(("mul_", "div_"))
_WRAPPING = frozenset(("remainder_",))
_OVERWRITING = frozenset(("fill_", "zero_", "masked_fill_", "tril_", "triu_"))
_PASSED_BY = frozenset(("round_", "sign_", "floor_", "ceil_", "trunc_", "copy_", "heaviside_"))


def rescales(operation: str) -> bool:
    """Must what passes back be multiplied by something? `operation` as it is written: `mul_`, `*=`, `__imul__`."""
    return spellings(operation)[0] in _SCALING | _BOUNDING


def changes_again(operation: str) -> bool:
    """Does it make something else, a second time, of what it has made the first time? What adds may count, though."""
    return spellings(operation)[0] in _SCALING | _SHIFTING


def normalises(operation: str) -> bool:
    """Is it one of those that bring data into another range, as they are to be used?"""
    return spellings(operation)[0] in _SCALING | _BOUNDING | _SHIFTING | _WRAPPING


def averages(operations: Iterable[str]) -> bool:
    """Do these writes together make an average: something is added, and the sum is multiplied or divided?"""
    names = {spellings(operation)[0] for operation in operations}
    return "add_" in names and not names.isdisjoint(_RATIOS)


def overwrites(operation: str) -> bool:
    """Must nothing pass back where it writes a number? (Masked scores get no gradient there anyway, mostly.)"""
    return spellings(operation)[0] in _OVERWRITING


def passed_by(operation: str) -> bool:
    """Is the gradient mostly meant to go past it, as if it were not there?"""
    return spellings(operation)[0] in _PASSED_BY
