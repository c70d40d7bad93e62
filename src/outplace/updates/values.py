"""The value of an update: what may be put into a tensor of another dtype, on another device, of another shape."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Number = (bool, int, float, complex)
NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


def fitted(value: Any, x: Tensor) -> Any:
    """The value as a number of x's kind, or as a tensor of its dtype on its device; raises where one would be lost."""
    if isinstance(value, Tensor):
        return _cast(value, x)
    if isinstance(value, NUMBERS):
        _check_number(value, x)
        return _as_kind_of(x, value)
    if _holds_tensors(value):
        raise TypeError("the value is a sequence of tensors; use torch.stack or torch.cat, which keep their gradients")
    try:
        tensor = torch.as_tensor(value, device=x.device)
        if tensor.is_floating_point() and isinstance(value, Sequence):  # Python's floats are float64
            tensor = torch.as_tensor(value, device=x.device, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"cannot make a tensor of the value, a {type(value).__name__}: {error}") from None
    return _cast(tensor, x)


def fits(value: float, dtype: torch.dtype) -> bool:
    """Can a float dtype hold the number? If not, torch decides what happens."""
    return not math.isfinite(value) or abs(value) <= float(torch.finfo(dtype).max)


def as_tensor(value: Any, x: Tensor) -> Tensor:
    """A fitted value as a tensor."""
    return value if isinstance(value, Tensor) else x.new_full((), value)


def broadcast(value: Any, shape: Sequence[int]) -> Any:
    """The value with no more dimensions than `shape`, to which it broadcasts; as in torch, leading ones may go."""
    if not isinstance(value, Tensor):
        return value
    extra = value.dim() - len(shape)
    stripped = value
    if extra > 0 and all(size == 1 for size in value.shape[:extra]):
        stripped = value.reshape(value.shape[extra:])
    if not broadcasts(stripped.shape, shape):
        have, need = tuple(value.shape), tuple(shape)
        raise ValueError(f"a value of shape {have} does not broadcast to x[index], which has shape {need}")
    return stripped


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Does `shape` broadcast to `to`, without making it larger?"""
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _cast(value: Tensor, x: Tensor) -> Tensor:
    if value.dtype is not x.dtype:
        if not torch.can_cast(value.dtype, x.dtype):
            raise TypeError(
                f"a {_name(value.dtype)} value would be lost in a {_name(x.dtype)} tensor; "
                f"convert one of them: v.to({x.dtype}) or x.to({value.dtype})"
            )
        value = value.to(x.dtype)
    if value.device != x.device:
        if value.dim():
            raise ValueError(f"the value is on {value.device} and x on {x.device}; move it with v.to(x.device)")
        value = value.to(x.device)
    return value


def _check_number(value: Any, x: Tensor) -> None:
    if x.is_floating_point():
        lost = isinstance(value, complex) or _is_too_large(value)
    elif x.is_complex() or not isinstance(value, Number):
        lost = _is_too_large(value)
    elif x.dtype is torch.bool:
        lost = value not in (0, 1)
    else:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        limits = torch.iinfo(x.dtype)
        lost = not whole or not limits.min <= value <= limits.max
    if lost:
        raise TypeError(f"the value {value!r} would be lost in a {_name(x.dtype)} tensor; convert x first")


def _is_too_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _as_kind_of(x: Tensor, value: Any) -> Any:
    """The number as one that makes no operation with x give a tensor of another kind."""
    if not isinstance(value, (int, float)):
        return value
    if x.is_floating_point() or x.is_complex():
        return float(value) if isinstance(value, bool) or abs(value) >= 1 << 63 else value
    return bool(value) if x.dtype is torch.bool else int(value)


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) or _holds_tensors(v) for v in value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
