"""Is a compiler, transform, mode or tracer of torch at work? Some fast ways are only for plain eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

_PROXY = torch._C._TorchDispatchModeKey.PROXY
# looked up once: they are called in every update
_transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_tracing_state: Callable[[], object] = torch._C._get_tracing_state
_included: Callable[[object], bool] = torch._C._dispatch_tls_is_dispatch_key_included
_PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
"""The key of a tracer that sees operations before autograd does; it is not a mode."""
_has_storage: Callable[[Tensor], bool] = torch._C._has_storage


def transformed() -> bool:
    """Inside vmap, grad, jvp and the like: in-place writes may be refused there, and values cannot be read."""
    return _transforms_active()


def eager() -> bool:
    """Plain eager PyTorch: operations run one by one, on tensors whose values can be read.

    False under make_fx and torch.jit.trace, too: they would record an operation that is tried and fails.
    """
    return not (
        is_compiling()
        or _transforms_active()
        or _tracing_state() is not None
        or (_dispatch_modes() and torch._C._get_dispatch_mode(_PROXY) is not None)
    )


def looks_at_values(*tensors: Tensor) -> bool:
    """May Python read the values of these tensors? Not while a graph is traced, nor of tensors without values."""
    if not eager() or not all(type(tensor) in PLAIN and not tensor.is_meta for tensor in tensors):
        return False
    return not any(tensor.is_cuda for tensor in tensors) or not torch.cuda.is_current_stream_capturing()


def only_autograd() -> bool:
    """No compiler, transform, mode or tracer is at work: a kernel that is no ATen operation may be used."""
    return not (
        is_compiling()
        or _transforms_active()
        or _dispatch_modes()
        or forward_ad._current_level >= 0
        or _tracing_state() is not None
        or _included(_PRE_DISPATCH)
    )


def is_memory(tensor: Tensor) -> bool:
    """Does the tensor's memory hold its values as they are?"""
    return (
        type(tensor) in PLAIN
        and _has_storage(tensor)  # the wrappers of `is_grads_batched` have none, nor have dead ones
        and not tensor.is_neg()  # whose memory has the other sign
    )


def seen_only_by_autograd(tensor: Tensor) -> bool:
    """May a kernel that is no ATen operation read this tensor's memory?"""
    return only_autograd() and is_memory(tensor)


def may_carry_gradient(tensor: Tensor) -> bool:
    """Can a gradient, backward or forward, flow to this tensor?"""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return (tensor.requires_grad and torch.is_grad_enabled()) or transformed() or forward_ad._current_level >= 0


PLAIN = (Tensor, torch.nn.Parameter)
_SHORT_FLOATS = (torch.float16, torch.bfloat16)


def refused_by_autocast(x: Tensor) -> bool:
    """Inside autocast, `cat` and `index_copy` refuse tensors of the short float that is not autocast's own."""
    if x.dtype not in _SHORT_FLOATS:
        return False
    device = x.device.type
    return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is not x.dtype
