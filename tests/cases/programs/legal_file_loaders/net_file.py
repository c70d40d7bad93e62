"""A docstring."""

from __future__ import annotations


def forward(w: Undefined) -> Undefined:  # noqa: F821 - never evaluated
    h = w * 2
    h += 1
    return h.exp().sum()
