"""The Triton kernels, for writes under a mask, to parts and to rows: what is read and written is so once.

Those for masks have two forms each, `flat` for operands that lie alike and without gaps, and one that walks strides: a
launch takes time for every argument.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from outplace.updates.kernels.layout import collapsed, span

DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
MAX_DIMS = 4
BLOCK, WARPS = 1024, 4
MOST_IN_ONE_BLOCK, ENTRIES_IN_ONE_BLOCK = 8 * BLOCK, 128
"""So many elements are as quickly copied and written to by one block, which can do the one after the other."""
MOST_KEPT = 1024
"""So many launches are remembered, and so many walks."""
LARGE = 2**31 - 2**16
"""From here on offsets may not fit into 32 bits."""


def set_number(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """The number where the mask is True, x elsewhere."""
    out = torch.empty_like(x)
    elements = x.numel()
    if mask.is_contiguous() and x.is_contiguous():
        _launch(_set_flat, _blocks(elements), (out, x, mask), (float(value),), (elements, elements >= LARGE, BLOCK))
    else:
        rest = _walk(out, x, mask)
        if rest is None:
            return torch.where(mask, value, x)
        _launch(_set_strided, _blocks(elements), (out, x, mask), (float(value),), rest)
    return out


def set_tensor(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """The value where the mask is True, x elsewhere: ATen's way is as quick as can be if all is of one dtype."""
    return torch.where(mask, value, x)


def split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient outside the mask and inside it, with zeros elsewhere, from one reading."""
    outside, inside = torch.empty_like(grad), torch.empty_like(grad)
    elements = grad.numel()
    if mask.is_contiguous() and grad.is_contiguous():
        flat = (elements, elements >= LARGE, BLOCK)
        _launch(_split_flat, _blocks(elements), (outside, inside, grad, mask), (), flat)
    else:
        rest = _walk(outside, grad, mask)
        if rest is None:
            return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
        _launch(_split_strided, _blocks(elements), (outside, inside, grad, mask), (), rest)
    return outside, inside


def set_part(x: Tensor, dim: int, start: int, stop: int, value: Any) -> Tensor:
    """A copy of x, which is contiguous, with the part from start to stop of a dimension replaced by the value."""
    out = torch.empty_like(x)
    elements, shape = x.numel(), [*x.shape]
    inner = math.prod(shape[dim + 1 :])
    first, last = start * inner, stop * inner
    number = not isinstance(value, Tensor)
    # What is not needed is left out where it is wide; elsewhere it lies in the same sectors of memory anyway.
    wide = (last - first) * x.element_size() >= 128
    of_value, number_value = (x, float(value)) if number else (value.contiguous(), 0.0)
    rest = (elements, shape[dim] * inner, first, last, number, wide, elements >= LARGE, BLOCK)
    _launch(_set_part, _blocks(elements), (out, x, of_value), (number_value,), rest)
    return out


def with_rows(
    x: Tensor, index: Tensor, value: Tensor, add: bool, last: Tensor | None = None, find_last: bool = False
) -> Tensor:
    """A copy of x with the rows of the value, or those that count, at the rows that the index names, or added to them.

    All are contiguous. Which rows count is in `last`, or is to be found and written there: every entry of the index is
    compared with all others, which is quick as long as they are few.
    """
    entries, elements, size = index.numel(), x.numel(), x.size(0)
    width = elements // size
    small = elements <= MOST_IN_ONE_BLOCK and entries * width <= MOST_IN_ONE_BLOCK
    if small and (add or (find_last and entries <= ENTRIES_IN_ONE_BLOCK)):
        out = torch.empty_like(x)
        tensors = (out, x, index, value, index if last is None else last)
        sizes = (entries, elements, size, width)
        _launch(_in_one_block, (1, 1), tensors, sizes, (add, ENTRIES_IN_ONE_BLOCK, BLOCK))
        return out
    out = x.clone()
    block = min(1 << (width - 1).bit_length(), BLOCK)
    rows = min(BLOCK // block, 16) if find_last else BLOCK // block
    grid = -(-entries // rows), -(-width // block)
    rest = (size, width, add, last is not None and not find_last, find_last, rows, block)
    _launch(_put_rows, grid, (out, index, value, index if last is None else last), (entries,), rest)
    return out


# -- starting a kernel ----------------------------------------------------------------------------------------------


def _blocks(elements: int) -> tuple[int, int]:
    return -(-elements // BLOCK), 1


def _launch(
    kernel: Any, grid: tuple[int, int], tensors: tuple[Tensor, ...], numbers: tuple[float, ...], rest: tuple[int, ...]
) -> None:
    """Starts the kernel; its arguments are the tensors, numbers of any value, and the rest (sizes and constants).

    Triton compiles anew for other dtypes, alignments, sizes and constants, and looks all of that up at every launch,
    which takes longer than the launch. What it has once started for the same of these is started again directly.
    """
    device = tensors[0].get_device()
    if device != torch._C._cuda_getDevice():
        with torch.cuda.device(device):
            return _launch(kernel, grid, tensors, numbers, rest)
    addresses = [tensor.data_ptr() for tensor in tensors]
    together = 0
    for address in addresses:
        together |= address
    aligned: Any = together & 15 == 0
    if not aligned:  # then it counts which of them are not
        aligned = tuple(address & 15 == 0 for address in addresses)
    key = id(kernel), device, tensors[0].dtype, aligned, rest  # to hash a kernel takes long
    start = _started.get(key)
    if start is None:
        compiled = kernel[grid](*tensors, *numbers, *rest, num_warps=WARPS)
        _remember(key, compiled)
    else:
        run, function, metadata = start
        stream = torch._C._cuda_getCurrentRawStream(device)
        # an address is taken as it is, while of a tensor Triton asks for it and then asks CUDA about it
        run(*grid, 1, stream, function, metadata, None, None, None, *addresses, *numbers, *rest)
    return None


_started: dict[Any, tuple[Any, Any, Any]] = {}
"""What has been started, by what it was compiled for: the launcher, and what it is to be given first."""
_directly = True


def _remember(key: Any, compiled: Any) -> None:
    if len(_started) >= MOST_KEPT:
        _started.clear()
    if _directly:
        _started[key] = compiled.run, compiled.function, compiled.packed_metadata


def probe() -> None:
    """Runs a kernel as Triton would start it and directly; raises where neither works, and remembers what does."""
    global _directly
    x = torch.zeros(1, device="cuda")
    try:
        for _ in range(2):
            set_number(x, x == 0, 1.0)
    except (AttributeError, TypeError, ValueError):  # a Triton that starts its kernels in another way
        _directly = False
        _started.clear()
        set_number(x, x == 0, 1.0)


def _walk(out: Tensor, x: Tensor, mask: Tensor) -> tuple[int, ...] | None:
    """What the kernels need to walk both operands in the order of `out`, an empty_like of x; None for too many dims."""
    key = x.shape, x.stride(), mask.stride()
    if key not in _walks:
        if len(_walks) >= MOST_KEPT:
            _walks.clear()
        dims = collapsed(out, [x, mask])
        inwards, missing = dims[::-1], MAX_DIMS - len(dims)
        sizes = [size for size, _ in inwards] + [1] * missing
        strides = [stride for _, both in inwards for stride in both] + [0] * 2 * missing
        wide = x.numel() >= LARGE or any(span(dims, operand) >= LARGE for operand in (0, 1))
        walk = (x.numel(), *sizes[: MAX_DIMS - 1], *strides, len(dims), wide, BLOCK)
        _walks[key] = walk if missing >= 0 else None
    return _walks[key]


_walks: dict[Any, tuple[int, ...] | None] = {}
"""By the shape and strides: to find them takes longer than to start the kernel."""


# -- the kernels: one block of the dense output --------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _places(elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    block = tl.program_id(0)
    if WIDE:
        block = block.to(tl.int64)
    place = block * BLOCK + tl.arange(0, BLOCK)
    return place, place < elements


@triton.jit  # type: ignore[untyped-decorator]
def _offsets(place, n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3, DIMS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where x and the mask have the element that is `place`-th in the output; dimension 0 is the innermost."""
    if DIMS == 1:
        return place * x0, place * m0
    i0, rest = place % n0, place // n0
    at_x, at_m = i0 * x0, i0 * m0
    if DIMS == 2:
        return at_x + rest * x1, at_m + rest * m1
    i1, rest = rest % n1, rest // n1
    at_x, at_m = at_x + i1 * x1, at_m + i1 * m1
    if DIMS == 3:
        return at_x + rest * x2, at_m + rest * m2
    i2, rest = rest % n2, rest // n2
    return at_x + i2 * x2 + rest * x3, at_m + i2 * m2 + rest * m3


@triton.jit  # type: ignore[untyped-decorator]
def _set_flat(out, x, mask, number, elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place, inside = _places(elements, WIDE, BLOCK)
    chosen = tl.load(mask + place, mask=inside, other=0) != 0
    old = tl.load(x + place, mask=inside)
    tl.store(out + place, tl.where(chosen, tl.full((BLOCK,), number, old.dtype), old), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _set_strided(  # type: ignore[no-untyped-def]
    out, x, mask, number, elements,
    n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3,
    DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place, inside = _places(elements, WIDE, BLOCK)
    at_x, at_m = _offsets(place, n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3, DIMS)
    chosen = tl.load(mask + at_m, mask=inside, other=0) != 0
    old = tl.load(x + at_x, mask=inside)
    tl.store(out + place, tl.where(chosen, tl.full((BLOCK,), number, old.dtype), old), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _split_flat(outside, inside_, grad, mask, elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place, inside = _places(elements, WIDE, BLOCK)
    chosen = tl.load(mask + place, mask=inside, other=0) != 0
    value = tl.load(grad + place, mask=inside)
    zero = tl.zeros((BLOCK,), value.dtype)
    tl.store(outside + place, tl.where(chosen, zero, value), mask=inside)
    tl.store(inside_ + place, tl.where(chosen, value, zero), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _split_strided(  # type: ignore[no-untyped-def]
    outside, inside_, grad, mask, elements,
    n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3,
    DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place, inside = _places(elements, WIDE, BLOCK)
    at_x, at_m = _offsets(place, n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3, DIMS)
    chosen = tl.load(mask + at_m, mask=inside, other=0) != 0
    value = tl.load(grad + at_x, mask=inside)
    zero = tl.zeros((BLOCK,), value.dtype)
    tl.store(outside + place, tl.where(chosen, zero, value), mask=inside)
    tl.store(inside_ + place, tl.where(chosen, value, zero), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _set_part(  # type: ignore[no-untyped-def]
    out, x, value, number, elements, span, first, last,
    NUMBER: tl.constexpr, SKIP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """x in stretches of `span` elements, each with the value from its first-th element to before its last-th."""
    place, inside = _places(elements, WIDE, BLOCK)
    stretch = place // span
    offset = place - stretch * span
    chosen = (offset >= first) & (offset < last)
    old = tl.load(x + place, mask=inside & (chosen == 0) if SKIP else inside)
    if NUMBER:
        new = tl.full((BLOCK,), number, old.dtype)
    else:
        new = tl.load(value + stretch * (last - first) + (offset - first), mask=inside & chosen)
    tl.store(out + place, tl.where(chosen, new, old), mask=inside)


@triton.jit(do_not_specialize=["entries"])  # type: ignore[untyped-decorator]
def _put_rows(  # type: ignore[no-untyped-def]
    out, index, value, last, entries, size, width,
    ADD: tl.constexpr, SOME: tl.constexpr, FIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = tl.load(index + entry, mask=entry < entries, other=0)
    row = tl.where(row < 0, row + size, row)
    _stop_unless((row >= 0) & (row < size))
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    counts = entry < entries
    if SOME:
        counts = tl.load(last + entry, mask=counts, other=0) != 0
    if FIND:
        later = tl.zeros((ROWS,), tl.int32)
        for start in range(tl.program_id(0) * ROWS, entries, 512):
            other = start + tl.arange(0, 512)
            same_row = tl.load(index + other, mask=other < entries, other=0)
            same_row = tl.where(same_row < 0, same_row + size, same_row)[None, :] == row[:, None]
            after = (other[None, :] > entry[:, None]) & (other < entries)[None, :]
            later = tl.maximum(later, tl.max((same_row & after).to(tl.int32), axis=1))
        if tl.program_id(1) == 0:
            tl.store(last + entry, later == 0, mask=counts)
        counts = counts & (later == 0)
    inside = counts[:, None] & (column < width)[None, :]
    new = tl.load(value + entry[:, None] * width + column[None, :], mask=inside)
    target = out + row[:, None] * width + column[None, :]
    if ADD:
        tl.atomic_add(target, new, mask=inside, sem="relaxed")
    else:
        tl.store(target, new, mask=inside)


@triton.jit(do_not_specialize=["entries", "elements", "size", "width"])  # type: ignore[untyped-decorator]
def _in_one_block(  # type: ignore[no-untyped-def]
    out, x, index, value, last, entries, elements, size, width,
    ADD: tl.constexpr, ENTRIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A copy of x with rows of the value added, or set where they are the last for their place: this is found first."""
    for start in range(0, elements, BLOCK):
        place = start + tl.arange(0, BLOCK)
        tl.store(out + place, tl.load(x + place, mask=place < elements), mask=place < elements)
    if not ADD:
        each = tl.arange(0, ENTRIES)
        its_row = tl.load(index + each, mask=each < entries, other=0)
        its_row = tl.where(its_row < 0, its_row + size, its_row)
        later = (each[None, :] > each[:, None]) & (each < entries)[None, :] & (its_row[None, :] == its_row[:, None])
        tl.store(last + each, tl.max(later.to(tl.int32), axis=1) == 0, mask=each < entries)
    tl.debug_barrier()
    for start in range(0, entries * width, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < entries * width
        entry = place // width
        row = tl.load(index + entry, mask=inside, other=0)
        row = tl.where(row < 0, row + size, row)
        _stop_unless((row >= 0) & (row < size))
        new = tl.load(value + place, mask=inside)
        target = out + row * width + (place - entry * width)
        if ADD:
            tl.atomic_add(target, new, mask=inside, sem="relaxed")
        else:
            tl.store(target, new, mask=inside & (tl.load(last + entry, mask=inside, other=0) != 0))


@triton.jit
def _stop_unless(condition):  # type: ignore[no-untyped-def]
    """Stops the device where the condition does not hold, as ATen does for an index out of range."""
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.eq.s32 p, $1, 0; @p trap; mov.u32 $0, $1; }",
        "=r,r", [condition.to(tl.int32)], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
