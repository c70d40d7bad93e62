"""Which storage a tensor lies in."""

from __future__ import annotations

from collections.abc import Callable

import torch

is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside the wrappers that `torch.func` puts around it."""
    while is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def storage_of(tensor: torch.Tensor) -> int | None:
    """The identity of the tensor's storage; None if it has none. No mode or subclass of the user sees the question."""
    try:
        with torch._C.DisableTorchFunction():
            return int(unwrapped(tensor).untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None
