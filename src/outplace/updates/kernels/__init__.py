"""Writes under masks and to rows, each in the quickest of the ways: ATen's, or for larger tensors kernels of our own.

Eager ATen has no good kernel for them: `masked_fill` copies first, `where` branches for every element (CPU) or does not
vectorise for numbers (CUDA), `index_copy` and `index_add` take no negative indices. Under torch.compile and
torch.func's transforms the ATen operation is what they understand, and Inductor makes as good a kernel of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from outplace.updates import constants, mode, repeats
from outplace.updates.kernels import on_cpu
from outplace.updates.kernels.function import Engine, WithRows, with_rows
from outplace.updates.kernels.function import masked_set as by_engine

CPU_ELEMENTS = 1 << 14
CUDA_BYTES = 1 << 25
"""From here on the time on the device is longer than what Python needs to start a kernel of ours."""
LEAST_ELEMENTS = CUDA_BYTES // 16
"""A tensor of fewer elements is smaller, whatever its dtype."""
_FLOATS = frozenset((torch.float32, torch.bfloat16, torch.float16))
"""What Triton's kernels are for."""
ROWS_BYTES, ADD_ELEMENTS = 1 << 22, 1 << 13
"""From so many bytes on our kernel is quicker for rows than ATen's; to add to them also up to so many elements."""
_MOST_ROW_ELEMENTS = 65_535 << 10
"""A row that is longer has too many blocks for CUDA."""
_FEW_ENTRIES = 1 << 13
"""Up to so many entries the last for each place are found quicker by comparing all of them with each other."""
_INT64 = torch.int64
_is_deterministic: Callable[[], bool] = torch.are_deterministic_algorithms_enabled
_SHORT_FLOATS = frozenset((torch.bfloat16, torch.float16))
_FILL_ELEMENTS = 1 << 22
"""From here on `masked_fill` is quicker than `where` for these, although it goes over x twice."""


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`torch.where(mask, value, x)`; the mask and the value, a number or a tensor of x's dtype, broadcast to x."""
    if x.numel() >= CPU_ELEMENTS:
        engine = _engine(x)
        done = None if engine is None else by_engine(engine, x, mask, value)
        if done is not None:
            return done
        if x.is_cuda and x.dtype in _SHORT_FLOATS and mask.shape == x.shape and _fills_quicker(x, value):
            return x.masked_fill(mask, value)
    if type(value) is float:
        number = constants.number(value, x)
        value = value if number is None else number
    return torch.where(mask, value, x)


def sets_parts(x: Tensor) -> bool:
    """Is there a kernel for parts of this large tensor, which has gone through `mode.seen_only_by_autograd`?"""
    return bool(x.is_cuda and x.dtype in _FLOATS and _triton() is not None)


def part_set(x: Tensor, dim: int, start: int, stop: int, value: Any) -> Tensor:
    """A copy of x, which `sets_parts` knows, with a part of a dimension replaced by a number or tensor."""
    return cast(Tensor, _triton().set_part(x, dim, start, stop, value))


def rows_put(x: Tensor, index: Tensor, value: Tensor, *, add: bool = False, unique: bool = True) -> Tensor | None:
    """`x[index] = value`, or `+=`, by a kernel on CUDA where that is quicker, else None; the value has a row an index.

    Where the index may not be unique the last of the rows for a place counts: that waits for nothing.
    """
    elements, dtype = x.numel(), x.dtype
    takes_aten_longer = elements <= ADD_ELEMENTS if add else not unique  # for it these are several operations
    if not takes_aten_longer and elements * x.element_size() < ROWS_BYTES:
        return None
    if dtype not in _FLOATS or value.dtype is not dtype or index.dtype is not _INT64 or index.dim() != 1:
        return None
    if not elements or not x.dim() or not value.dim():
        return None
    size, *of_row = x.shape
    entries, *of_value = value.shape  # a slice of a shape takes longer
    if index.size(0) != entries or of_value != of_row or elements > size * _MOST_ROW_ELEMENTS:
        return None
    device = x.get_device()
    if index.get_device() != device or value.get_device() != device:
        return None
    if not mode.only_autograd() or not mode.is_memory(x) or not mode.is_memory(value) or _is_deterministic():
        return None
    kernel = _rows_kernel(dtype, add)
    if kernel is None:
        return None
    if unique or add:
        return with_rows(kernel, x, index, value, add)
    if entries <= _FEW_ENTRIES:
        return with_rows(kernel, x, index, value, last=index.new_empty(entries, dtype=torch.bool), find_last=True)
    return with_rows(kernel, x, index, value, last=repeats.last_of_each(*repeats.flat((index,), x.shape)))


def is_large(x: Tensor) -> bool:
    """Is this a CUDA tensor so large that the time on the device is what counts?"""
    elements = x.numel()
    return bool(elements >= LEAST_ELEMENTS and x.is_cuda and elements * x.element_size() >= CUDA_BYTES)


def _engine(x: Tensor) -> Engine | None:
    if x.is_cpu:
        return cast(Engine, on_cpu)
    return _triton() if is_large(x) and mode.seen_only_by_autograd(x) else None


@functools.cache
def _triton() -> Any:
    """The Triton kernels, or None where Triton is not installed, or lacks something (a compiler, most often)."""
    try:
        from outplace.updates.kernels import on_cuda

        on_cuda.probe()
    except Exception:
        return None
    return on_cuda


@functools.cache
def _rows_kernel(dtype: torch.dtype, add: bool) -> WithRows | None:
    """The kernel for rows, or None where it does not work: Triton knows atomic additions in bfloat16 since lately."""
    if torch.version.hip:
        return None
    try:
        kernel = cast(WithRows, _triton().with_rows)
        x, index = torch.zeros(1, 16, dtype=dtype, device="cuda"), torch.zeros(1, dtype=_INT64, device="cuda")
        kernel(x, index, x, add, None, False)
        if not add:
            kernel(x, index, x, False, index == 0, True)
    except Exception:
        return None
    return kernel


def _fills_quicker(x: Tensor, value: Any) -> bool:
    """From some size on; and the number must be one that it takes for every dtype: float16 ends at 65504."""
    return x.numel() >= _FILL_ELEMENTS and isinstance(value, (int, float)) and abs(value) < 65504
