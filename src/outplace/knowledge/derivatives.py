"""Writes that backward must be told of: a gradient passes through them otherwise than through a copy.

A sum has the derivative of a copy, and so has a remainder. What rounds, takes the sign or copies is mostly meant to be
passed by (a straight-through estimator).
"""

from __future__ import annotations

from outplace.knowledge.names import spellings

_RESCALING = frozenset(
    ("mul_", "multiply_", "div_", "divide_", "true_divide_", "clamp_", "clamp_min_", "clamp_max_",
     "clip_", "pow_", "exp_", "log_", "sqrt_", "square_", "tanh_", "sigmoid_", "relu_", "abs_", "neg_")
)  # fmt: skip
_OVERWRITING = frozenset(("fill_", "zero_", "masked_fill_", "tril_", "triu_"))
_PASSED_BY = frozenset(("round_", "sign_", "floor_", "ceil_", "trunc_", "copy_", "heaviside_"))


def rescales(operation: str) -> bool:
    """Must what passes back be multiplied by something? `operation` as it is written: `mul_`, `*=`, `__imul__`."""
    return spellings(operation)[0] in _RESCALING


def overwrites(operation: str) -> bool:
    """Must nothing pass back where it writes a number? (Masked scores get no gradient there anyway, mostly.)"""
    return spellings(operation)[0] in _OVERWRITING


def passed_by(operation: str) -> bool:
    """Is the gradient mostly meant to go past it, as if it were not there?"""
    return spellings(operation)[0] in _PASSED_BY
