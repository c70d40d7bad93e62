"""What was done for such tensors before is done again at once.

To find out how to update a tensor (which kernels, how many blocks, which arguments) takes Python longer than the
device takes for ten megabytes. But it all follows from a description of the operands: dtypes, shapes, strides, an index
that is no tensor, which gradients are wanted. When such an update comes for the second time its kernels are remembered,
and from then on a little C looks at the operands and starts them. Small tensors are left to ATen the first time, which
may be the only one: no kernel is compiled for it. Where the C was not compiled Python finds out anew every time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

try:
    if os.environ.get("OUTPLACE_PURE_PYTHON"):
        raise ImportError
    from outplace.updates.kernels import _again
except ImportError:  # or there was no compiler
    _again = None  # type: ignore[assignment]

SET, SET_UNIQUE, ADD, TAKE, SPLIT = range(5)
"""What is remembered. SET_UNIQUE is promised to name no place twice. TAKE and SPLIT are for backward: rows of the
gradient; and what it gives to x and what to the value.
"""


def _nothing(x: Tensor, index: Any, value: Any, how: int, /) -> Any:
    return None


lookup: Callable[[Tensor, Any, Any, int], Any] = _nothing if _again is None else _again.lookup
"""The update, if such a one is remembered; SPLIT gives two tensors, the others one."""


def _forward(ctx: Any, x: Tensor, index: Tensor, value: Any, make: Callable[..., Tensor], /) -> Tensor:
    ctx.save_for_backward(index)
    return make(x, index, value)


forward: Callable[..., Any] = _forward if _again is None else _again.forward
"""Of a Function that saves the index and makes the update."""


def backward(how: int | None, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Of such a Function, as a method of its context: by what is remembered of this, or in Python."""
    return otherwise if _again is None or how is None else _again.Backward(how, otherwise)


def has_come(x: Tensor, index: Any, value: Any, how: int) -> bool:
    """Has such an update come before, and can it be remembered?"""
    return works() and _again.seen(x, index, value, how)


def first(steps: Any, apply: Callable[..., Any], how: int, x: Tensor, index: Any, value: Any) -> Tensor:
    """The update by these kernels, by way of the Function `apply` where a gradient is wanted, and remembered."""
    if torch.is_grad_enabled() and (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad)):
        result = apply(x, index, value, steps)
    else:
        result = steps(x, index, value)
    remember(steps, apply, how, x, index, value)
    return cast(Tensor, result)


def first_taken(steps: Any, grad: Tensor, index: Tensor, last: Any) -> Tensor:
    """The rows of a gradient that the index names, taken by these kernels and remembered."""
    taken = steps(grad, index, last)
    remember(steps, None, TAKE, grad, index, last)
    return cast(Tensor, taken)


def first_split(steps: Any, grad: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """What a gradient gives to x and what to the value, by these kernels and remembered."""
    both = steps(grad, index, 0.0)
    remember(steps, None, SPLIT, grad, index, 0.0)
    return cast(tuple[Tensor, Tensor], both)


def remember(steps: Any, apply: Callable[..., Any] | None, how: int, x: Tensor, index: Any, value: Any) -> None:
    """Notes how such an update is made, and by which Function where a gradient is wanted, if it comes again.

    Until the kernels say that it is crowded: then it is to be found out anew. For a gradient that is too late.
    """
    global _works
    if not has_come(x, index, value, how):
        return
    from outplace.updates.kernels.on_cuda import launches

    crowded = 0 if steps.crowded is None or how == SPLIT else steps.crowded.data_ptr()
    try:
        known = launches(steps, x)
        if known is not None:
            _again.remember(x, index, value, how, apply, _again.Recipe(*known, steps.shapes, crowded))
    except (AttributeError, KeyError, TypeError, ValueError):  # a Triton whose kernels are started in another way
        _works = False


def works() -> bool:
    """Is there what is needed to start kernels from C?"""
    global _works
    if _works is None:
        _works = _connected()
    return _works


_works: bool | None = None


def _connected() -> bool:
    if _again is None or torch.version.hip:
        return False
    try:
        return _again.connect(
            Tensor,
            torch.nn.Parameter,
            torch.float16,
            torch.bfloat16,
            torch.empty_like,
            torch._C._are_functorch_transforms_active,
            torch._C._len_torch_dispatch_stack,
            torch._C._get_tracing_state,
            forward_ad,
            torch._C._get_deterministic_algorithms,
            torch.is_grad_enabled,
            torch._C._cuda_getDevice,
            torch._C._cuda_getCurrentRawStream,
            torch._C._cuda_setDevice,
            getattr(Tensor, "__dlpack_c_exchange_api__", None),
        )
    except AttributeError:  # a torch that lacks one of them
        return False
