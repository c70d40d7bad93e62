"""What an in-place operation does to gradients, and what it does if it is made twice.

Autograd must see an operation whose derivative differs from that of a copy. A sum has the derivative of a copy, and so
has a remainder. Rounding, signs and copies are mostly meant to be invisible (a straight-through estimator).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from outplace.knowledge.names import spellings

_SCALING = frozenset(
    ("mul_", "multiply_", "div_", "divide_", "true_divide_", "pow_", "exp_", "log_", "sqrt_", "square_", "tanh_",
     "sigmoid_", "neg_")
)  # fmt: skip
_BOUNDING = frozenset(("clamp_", "clamp_min_", "clamp_max_", "clip_", "relu_", "abs_"))
"""A second call changes nothing."""
_SHIFTING = frozenset(("sub_", "subtract_", "floor_divide_"))
"""Gradients pass as through a copy, or not at all. (Those that add are left out: what they write may be a sum.)"""
_RATIOS = frozenset(("mul_", "div_"))
_ADDING = frozenset(("add_",))
_ADDING_UP = frozenset(
    ("scatter_add_", "index_add_", "scatter_reduce_", "index_reduce_", "addcmul_", "addcdiv_", "addmm_", "addmv_",
     "addr_", "addbmm_", "baddbmm_")
)  # fmt: skip
_THINNING = frozenset(("dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_"))
"""A part of the values is lost each time, and by chance another one."""
_WRAPPING = frozenset(("remainder_",))
_OVERWRITING = frozenset(("fill_", "zero_", "masked_fill_", "tril_", "triu_"))
_PASSED_BY = frozenset(("round_", "sign_", "floor_", "ceil_", "trunc_", "copy_", "heaviside_"))


def rescales(operation: str) -> bool:
    """Must the gradient be multiplied by something? `operation` as it is written: `mul_`, `*=`, `__imul__`."""
    return spellings(operation)[0] in _SCALING | _BOUNDING


def changes_again(operation: str) -> bool:
    """Does a second call change the values again? Additions do not count: they may be a counter."""
    return spellings(operation)[0] in _SCALING | _SHIFTING


@cache
def step_of(operation: str) -> str:
    """How a write makes the new values of the old ones: "scale", "shift", "add" or "thin"; empty for all others."""
    name = spellings(operation)[0]
    steps = {"scale": _SCALING - {"neg_"}, "shift": _SHIFTING, "add": _ADDING, "thin": _THINNING}
    return next((step for step, operations in steps.items() if name in operations), "")


def adds_up(operation: str) -> bool:
    """Does it add something new to the old values: `scatter_add_`? (`lerp_` keeps an average.)"""
    return spellings(operation)[0] in _ADDING | _ADDING_UP


def normalises(operation: str) -> bool:
    """Does it bring data into another range?"""
    return spellings(operation)[0] in _SCALING | _BOUNDING | _SHIFTING | _WRAPPING


def averages(operations: Iterable[str]) -> bool:
    """Do these writes together make an average: something is added, and the sum is multiplied or divided?"""
    names = {spellings(operation)[0] for operation in operations}
    return "add_" in names and not names.isdisjoint(_RATIOS)


def overwrites(operation: str) -> bool:
    """Must the gradient be zero where it writes a number? (Masked scores get no gradient there anyway, mostly.)"""
    return spellings(operation)[0] in _OVERWRITING


def passed_by(operation: str) -> bool:
    """Is the gradient mostly meant to ignore it?"""
    return spellings(operation)[0] in _PASSED_BY
