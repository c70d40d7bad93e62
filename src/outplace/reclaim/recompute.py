"""`outplace.recompute`: recomputes a module's activations in backward, without side effects.

`torch.utils.checkpoint` runs the module's forward once more, with the same random numbers. Buffers would also change
a second time: a batch norm would count each batch twice. So the second run gets the buffers and modes from before the
first run, and its changes to them are discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def recompute(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    """Calls the module and keeps only its inputs. Backward runs the forward again to get the activations.

    Less memory for more time; losses, gradients and buffers are the same, bit for bit. The inputs must not be
    overwritten before the backward. Without gradients, and in compiled code, it is a plain call.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"recompute() takes a module and its arguments, not {type(module).__name__}")
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return module(*args, **kwargs)
    before = _State(module)
    with before.trimmed():
        return checkpoint(
            module, *args, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), before), **kwargs
        )


class _State:
    """A copy of a module's modes and buffers. The context manager puts them back for a while."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._modes = [(item, item.training) for item in module.modules()]
        self._now: list[bool] = []
        self._buffers = [
            (owner, name, buffer, buffer._version, buffer.clone())
            for owner in module.modules()
            for name, buffer in owner._buffers.items()
            if buffer is not None
        ]

    @contextlib.contextmanager
    def trimmed(self) -> Iterator[None]:
        """Forgets the buffers that did not change. Compares contents: norms write without changing the version."""
        yield
        self._buffers = [
            buffer
            for buffer in self._buffers
            if buffer[2]._version != buffer[3] or isinstance(buffer[0], torch.nn.modules.batchnorm._NormBase)
        ]

    def __enter__(self) -> None:
        self._now = [one.training for one, _ in self._modes]
        for one, training in self._modes:
            one.training = training
        for owner, name, _, _, before in self._buffers:
            owner._buffers[name] = before.clone()

    def __exit__(self, *_: object) -> None:
        for (one, _), training in zip(self._modes, self._now, strict=True):
            one.training = training
        for owner, name, buffer, _, _ in self._buffers:
            owner._buffers[name] = buffer
