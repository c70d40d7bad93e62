"""Writes under masks, to rows and to parts, each in the quickest of the ways: ATen's, or kernels of our own.

Eager ATen has no good kernel for them: `masked_fill` copies first, `where` branches for every element (CPU) or does not
vectorise for numbers (CUDA), `index_copy` and `index_add` take no negative indices. Under torch.compile and
torch.func's transforms the ATen operation is what they understand, and Inductor makes as good a kernel of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.compiler import is_compiling

import outplace.updates as updates
from outplace.updates import constants, mode, repeats
from outplace.updates.kernels import again, function, on_cpu

CPU_ELEMENTS = 1 << 14
CUDA_BYTES = 1 << 25
"""From here on the time on the device is longer than what Python needs to start a kernel of ours under a mask."""
TENSOR_BYTES = 1 << 24
"""The same for a tensor under a mask, for which `torch.where` is quicker to ask for."""
ROWS_BYTES, ADD_ELEMENTS = 1 << 22, 1 << 13
"""Where Python starts them our kernels for rows are quicker from so many bytes on; to add also for few elements."""
PARTS_BYTES = 1 << 22
"""The same for parts."""
_FLOATS = frozenset((torch.float32, torch.bfloat16, torch.float16))
"""What Triton's kernels are for."""
_SHORT_FLOATS = frozenset((torch.bfloat16, torch.float16))
_FILL_ELEMENTS = 1 << 22
"""From here on `masked_fill` is quicker than `where` for these, although it goes over x twice."""
_TAKE_ELEMENTS = 1 << 20
"""From here on our kernel takes rows quicker than ATen's, however it is started."""
_INT64 = torch.int64
_is_deterministic: Callable[[], bool] = torch.are_deterministic_algorithms_enabled


def masked_set(x: Tensor, mask: Tensor, value: Any, index: Tensor | None = None) -> Tensor:
    """`torch.where(mask, value, x)`; the mask and the value, a number or a tensor of x's dtype, broadcast to x.

    The index is the mask as it was given, before it was made to broadcast.
    """
    if x.numel() >= CPU_ELEMENTS or x.is_cuda:
        done = _masked_by_kernel(x, mask, value, index)
        if done is not None:
            return done
        if x.is_cuda and x.dtype in _SHORT_FLOATS and mask.shape == x.shape and _fills_quicker(x, value):
            return x.masked_fill(mask, value)
    if type(value) is float:
        number = constants.number(value, x)
        value = value if number is None else number
    return torch.where(mask, value, x)


def _masked_by_kernel(x: Tensor, mask: Tensor, value: Any, index: Tensor | None) -> Tensor | None:
    if type(mask) is not Tensor or not mode.seen_only_by_autograd(x):
        return None
    if isinstance(value, Tensor):
        if not mode.is_memory(value):
            return None
        value = _expanded(value, x)
    if x.is_cuda and x.dtype in _FLOATS:
        return _masked_on_cuda(x, mask, value, mask if index is None else index)
    if x.is_cpu and x.dtype in on_cpu.DTYPES and mask.shape == x.shape:  # one that broadcasts is regular enough
        return _masked_on_cpu(x, mask, value)
    return None


def _masked_on_cpu(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    kind, make = function.set_number, on_cpu.set_number
    wants_gradient = x.requires_grad
    if isinstance(value, Tensor):
        kind, make = function.set_tensor, on_cpu.set_tensor
        wants_gradient = wants_gradient or value.requires_grad
    if wants_gradient and torch.is_grad_enabled():
        return cast(Tensor, kind.apply(x, mask, value, make))
    return make(x, mask, value)


def _masked_on_cuda(x: Tensor, mask: Tensor, value: Any, index: Tensor) -> Tensor | None:
    kernels = _triton() if _pays(x, index, value) else None
    if isinstance(value, Tensor):
        if kernels is None:
            return None
        wide = _expanded(mask, x)
        starts = kernels.set_tensor(x, wide, value) if index.shape == x.shape else None
        if starts is not None:
            return again.first(kernels.Steps(starts), function.set_tensor, again.SET, x, index, value)
        if torch.is_grad_enabled() and (x.requires_grad or value.requires_grad):
            return cast(Tensor, function.set_tensor.apply(x, wide, value, _where))
        return None
    if not fits(value, x):
        return None
    starts = None if kernels is None else kernels.set_number(x, _expanded(mask, x))
    if kernels is not None and starts is not None:
        return again.first(kernels.Steps(starts), function.set_number, again.SET, x, index, value)
    if x.is_contiguous() and mask.is_contiguous():
        return None
    return x.clone().masked_fill_(mask, value)  # which lies in memory as x does, and as the kernels leave it


def _where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """On CUDA that is as quick as can be if all is of one dtype; only its gradients are not."""
    return torch.where(mask, value, x)


def split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient, which a kernel may read, outside the mask and inside it, with zeros elsewhere."""
    if grad.is_cpu:
        return on_cpu.split(grad, _expanded(mask, grad))
    starts = _triton().split(grad, _expanded(mask, grad))
    if starts is None:
        return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
    return again.first_split(_triton().Steps(starts, (None, None)), grad, mask)


def split_rows(grad: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient with zeros in the rows that the index, which has gone through `rows_put`, names; and these rows.

    Where several entries name a row it goes to the last one.
    """
    if mode.seen_only_by_autograd(grad) and not (grad.requires_grad and torch.is_grad_enabled()):
        grad, entries = grad.contiguous(), len(index)
        known = again.lookup(grad, index, 0.0, again.SPLIT)
        if known is not None:
            return cast(tuple[Tensor, Tensor], known)
        crowded = _triton().crowded(grad, entries)
        starts = _triton().split_rows(grad, entries, crowded is not None)
        return again.first_split(_triton().Steps(starts, (None, [entries, *grad.shape[1:]]), crowded), grad, index)
    last = repeats.last_of_each(*repeats.flat((index,), grad.shape))
    return updates.at(grad)[index].set(0.0), torch.where(_wide(last, grad), grad[index], 0.0)


def fits(value: float, x: Tensor) -> bool:
    """Can x hold the number? If not, it is torch's to say what happens."""
    return not math.isfinite(value) or abs(value) <= torch.finfo(x.dtype).max


def sets_parts(x: Tensor, index: Any, value: Any) -> bool:
    """Is a kernel of ours quicker for parts of this tensor, which has gone through `mode.seen_only_by_autograd`?"""
    if not x.is_cuda or x.dtype not in _FLOATS:
        return False
    if x.numel() * x.element_size() < PARTS_BYTES and not again.has_come(x, index, value, again.SET):
        return False
    return _triton() is not None


def part_set(x: Tensor, dim: int, start: int, stop: int, value: Any, index: Any) -> Tensor:
    """A copy of x, which `sets_parts` knows, with a part of a dimension replaced by a number or tensor.

    x is contiguous, a tensor is too and has the shape of `x[index]`, which is this part.
    """
    steps = _triton().Steps(_triton().set_part(x, dim, start, stop, not isinstance(value, Tensor)))
    return again.first(steps, function.set_part, again.SET, x, index, value)


def rows_put(x: Tensor, index: Tensor, value: Any, how: int) -> Tensor | None:
    """`x[index] = value`, or `+=`, by kernels on CUDA where that is quicker, else None.

    The value is a number, which is not added, or has a row for each index. Where the index may not be unique the last
    of the rows for a place counts: that waits for nothing.
    """
    if not mode.seen_only_by_autograd(x) or _is_deterministic():
        return None
    elements, dtype, add = x.numel(), x.dtype, how == again.ADD
    is_number = not isinstance(value, Tensor)
    find_last = how == again.SET and not is_number and value.requires_grad and torch.is_grad_enabled()
    takes_aten_longer = find_last or (add and elements <= ADD_ELEMENTS)  # for it these are several operations
    if dtype not in _FLOATS or not elements or not x.dim() or not x.is_contiguous():
        return None
    if not takes_aten_longer and elements * x.element_size() < ROWS_BYTES and not again.has_come(x, index, value, how):
        return None
    if index.dtype is not _INT64 or index.dim() != 1 or not index.is_contiguous() or index.device != x.device:
        return None
    size, entries = x.size(0), index.size(0)
    if not (fits(value, x) if is_number else _has_rows(value, entries, x)):
        return None
    kernels = _triton()
    if kernels is None or not entries or not _works_for_rows(dtype, add):
        return None
    if elements > size * kernels.MOST_ROW_ELEMENTS or entries > kernels.MOST_ENTRIES:
        return None
    all_are_work = add or find_last  # all entries for a row, here or in backward
    owned = kernels.owns_rows(x, entries, all_are_work) and _works_for_own_rows(dtype)
    if is_number:
        starts = (kernels.fill_own_rows if owned else kernels.fill_rows)(x, entries)
        return again.first(kernels.Steps(starts), function.set_number, how, x, index, value)
    if owned and (x.requires_grad or not find_last):
        kind = function.add_rows if add else function.set_own_rows if x.requires_grad else function.set_rows
        crowded = kernels.crowded(x, entries) if all_are_work else None
        steps = kernels.Steps(kernels.put_own_rows(x, entries, add=add), crowded=crowded)
    else:
        kind = function.add_rows if add else function.set_last_rows if find_last else function.set_rows
        steps = kernels.Steps(kernels.put_rows(x, entries, add=add, find_last=find_last))
    return again.first(steps, kind, how, x, index, value)


def _has_rows(value: Tensor, entries: int, x: Tensor) -> bool:
    """Does a kernel find so many rows of x's in it?"""
    if value.dtype is not x.dtype or value.device != x.device or [*value.shape] != [entries, *x.shape[1:]]:
        return False
    return bool(mode.is_memory(value) and value.is_contiguous())


def rows_taken(x: Tensor, index: Tensor, last: Tensor | None = None) -> Tensor:
    """`x[index]`, which has gone through `rows_put`; zeros for entries that are not the last for their row."""
    if x.is_cuda and not x.requires_grad and not is_compiling():
        said = 1.0 if last is None else last
        taken = again.lookup(x, index, said, again.TAKE)
        if taken is not None:
            return cast(Tensor, taken)
        if mode.seen_only_by_autograd(x) and x.is_contiguous() and (last is not None or _takes(x, index)):
            starts = _triton().take_rows(x, len(index), last is not None)
            return again.first_taken(_triton().Steps(starts, ([len(index), *x.shape[1:]],)), x, index, said)
    if last is None:
        return x[index]
    return torch.where(_wide(last != 0, x), x[index], 0.0)


def _takes(x: Tensor, index: Tensor) -> bool:
    """Is our kernel quicker to take rows than ATen's? That takes less time to ask for, until ours is remembered."""
    return (x.numel() >= _TAKE_ELEMENTS and again.works()) or again.has_come(x, index, 1.0, again.TAKE)


def _wide(entries: Tensor, x: Tensor) -> Tensor:
    """Something of each entry of an index for rows, to go with these rows."""
    return entries.reshape(-1, *(1,) * (x.dim() - 1))


def _pays(x: Tensor, index: Tensor, value: Any) -> bool:
    """Is this so large that the time on the device is what counts, or will a kernel be started at once from now on?"""
    least = TENSOR_BYTES if isinstance(value, Tensor) else CUDA_BYTES
    return x.numel() * x.element_size() >= least or again.has_come(x, index, value, again.SET)


def _expanded(tensor: Tensor, x: Tensor) -> Tensor:
    return tensor if tensor.shape == x.shape else tensor.expand(x.shape)


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
def _works_for_rows(dtype: torch.dtype, add: bool) -> bool:
    """Triton knows atomic additions in bfloat16 since lately, and none of the checks of an index elsewhere."""
    if torch.version.hip:
        return False
    try:
        for width in (16, 1 << 14):
            x, index = torch.zeros(1, width, dtype=dtype, device="cuda"), torch.zeros(1, dtype=_INT64, device="cuda")
            _triton().Steps(_triton().put_rows(x, 1, add=add))(x, index, x)
    except Exception:
        return False
    return True


@functools.cache
def _works_for_own_rows(dtype: torch.dtype) -> bool:
    """Notes in memory that is meant for something else, atomic operations of a block alone: not every Triton can."""
    kernels = _triton()
    x, index = torch.zeros(1, 16, dtype=dtype, device="cuda"), torch.zeros(1, dtype=_INT64, device="cuda")
    try:
        crowded = kernels.crowded(x, 1)
        kernels.Steps(kernels.put_own_rows(x, 1))(x, index, x)
        kernels.Steps(kernels.fill_own_rows(x, 1))(x, index, 0.0)
        kernels.Steps(kernels.split_rows(x, 1, crowded is not None), (None, [1, 16]), crowded)(x, index, 0.0)
        if crowded is not None and _works_for_rows(dtype, True):
            kernels.Steps(kernels.put_own_rows(x, 1, add=True), crowded=crowded)(x, index, x)
    except Exception:
        return False
    return True


def _fills_quicker(x: Tensor, value: Any) -> bool:
    """From some size on; and the number must be one that it takes for every dtype: float16 ends at 65504."""
    return x.numel() >= _FILL_ELEMENTS and isinstance(value, (int, float)) and abs(value) < 65504
