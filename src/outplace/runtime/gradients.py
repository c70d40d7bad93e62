"""Gradients that are written in place while autograd hands the very same tensor to others."""

from __future__ import annotations

import functools
from typing import Any

import torch

from outplace.runtime import names, record, silent, verdict, writes


def _watched_hook(hook: Any) -> Any:
    @functools.wraps(hook, assigned=("__name__", "__qualname__", "__doc__", "__module__"))
    def watched(gradient: Any) -> Any:
        if not isinstance(gradient, torch.Tensor) or writes.is_traced():
            return hook(gradient)
        # We hold it once, the engine once; whoever else holds it (another branch) will see what the hook writes.
        shared, before = gradient._use_count() > 2, gradient._version
        made = hook(gradient)
        if shared and gradient._version != before:
            silent.guarded(lambda: _report_hook(gradient))
        return made

    return watched


def _report_hook(gradient: torch.Tensor) -> None:
    storage = names.storage_of(gradient)
    last = [write for write in record.current().writes if write.storage == storage and write.frames][-1:]
    name = silent.target_of(last[0]) if last else None
    why = (
        "The hook writes the gradient in place. Autograd has handed the very same tensor to another branch of the "
        "graph, which now gets the changed gradient too."
    )
    remedy = "Return a new gradient from the hook: `return grad * 0.1` instead of `grad.mul_(0.1)`."
    if last:
        verdict.tell("silent-other", silent.described(gradient, name), why, silent.mutations_of(last), remedy)


def _make_register_hook(original: Any) -> Any:
    @functools.wraps(original)
    def register_hook(self: Any, hook: Any) -> Any:
        return original(self, hook if writes.is_traced() else _watched_hook(hook))

    return register_hook


def install() -> None:
    """Starts looking at hooks."""
    writes.replace(torch.Tensor, "register_hook", _make_register_hook(torch.Tensor.register_hook))
