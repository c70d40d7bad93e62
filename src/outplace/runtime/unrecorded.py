"""Results of the graph that are changed through `.data`: the values change, and backward goes on as if they had not.

After `h.data.clamp_(-1, 1)` the gradient passes where it should be zero, after `h.data.mul_(0.1)` it is ten times too
large, and nothing that was saved need have changed. So a hook waits for the gradient of such a tensor: if any of it
comes back to an element that the write has changed, it is wrong. Scores that are masked by -inf get none, and a number
that is added has the derivative that backward takes anyway; what rounds or copies may be meant to be passed by.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from outplace.runtime import aliases, names, silent, verdict
from outplace.runtime.memory import bits, copyable, unobserved
from outplace.runtime.record import Write

_WITH_A_DERIVATIVE = frozenset(
    {
        *("mul", "multiply", "div", "divide", "true_divide", "clamp", "clamp_min", "clamp_max", "clip", "fill", "zero"),
        *(
            "masked_fill",
            "pow",
            "exp",
            "sqrt",
            "square",
            "tanh",
            "sigmoid",
            "relu",
            "abs",
            "neg",
            "log",
            "tril",
            "triu",
        ),
        *("__imul__", "__itruediv__", "__idiv__", "__ipow__", "__imod__"),
    }
)
"""Writes whose derivative is not that of a copy; without the `_` at their end."""


def note(write: Write, alias: torch.Tensor) -> None:
    """A write that autograd cannot see is about to be made through this alias."""
    source = aliases.source_of(alias)
    name = write.operation if write.operation.startswith("__") else write.operation.removesuffix("_")
    if source is not None and name in _WITH_A_DERIVATIVE and write.frames and silent.worth_a_look(write.frames[-1]):
        silent.guarded(partial(_wait, write, source))


def _wait(write: Write, source: torch.Tensor) -> None:
    if copyable(source) and source.requires_grad and not source.is_leaf and silent.affords(source):
        with unobserved():
            before, now = source.detach().clone(), source.detach()
        source.register_hook(lambda grad: silent.guarded(partial(_compare, write, before, now, grad)))


def _compare(write: Write, before: torch.Tensor, now: torch.Tensor, grad: Any) -> None:
    with unobserved():
        plain = type(grad) is torch.Tensor and grad.layout is torch.strided and not now.is_complex()
        if not plain or grad.shape != now.shape:
            return
        changed = bits(before) != bits(now)
        wrong = changed & (grad.detach() != 0)
        count, total = int(wrong.sum()), int(changed.sum())
    if count:
        silent.tell_when_done(partial(_tell, write, now, count, total))


def _tell(write: Write, now: torch.Tensor, count: int, total: int) -> None:
    name = silent.target_of(write, by_data=True)
    why = (
        "It is a result of the graph, and was written through `.data`, which autograd does not record: the gradient "
        "goes back as if the write had not happened."
    )
    verdict.tell(
        "silent-data",
        names.described(now, name),
        why,
        silent.mutations_of([write]),
        "Make a new tensor, which is recorded: `x = x.clamp(low, high)` instead of `x.data.clamp_(low, high)`.",
        cause="unrecorded",
        notes=(f"Of {total} elements that it changed, {count} had a gradient in this backward.",),
    )
