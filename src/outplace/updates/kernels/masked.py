"""The Triton kernels for masked writes: every operand is read once and every result written once.

The two kernels have two forms each, `flat` for operands that lie alike and without gaps, and one that walks strides: a
launch takes time for every argument. The Functions do without `setup_context` for the same reason; under torch.func's
transforms ATen does the work.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from outplace.updates import mode
from outplace.updates.kernels.layout import Dim, collapsed, span

DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
MAX_DIMS = 4
BLOCK, WARPS = 2048, 4
LARGE = 2**31 - 2**16
"""From here on offsets may not fit into 32 bits."""


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    """The value where the mask is True, x elsewhere; None where the kernels do not apply."""
    if x.dtype not in DTYPES or not mode.seen_only_by_autograd(x) or type(mask) is not Tensor:
        return None
    if isinstance(value, Tensor):
        # ATen's `where` is as quick as it can be if all is of one dtype; its backward is not
        if not (torch.is_grad_enabled() and (x.requires_grad or value.requires_grad)) or type(value) is not Tensor:
            return None
        return cast(Tensor, _SetTensor.apply(x, _expanded(mask, x), _expanded(value, x)))
    mask = _expanded(mask, x)
    if torch.is_grad_enabled() and x.requires_grad:
        return cast(Tensor, _SetNumber.apply(x, mask, value))
    return _set_number(x, mask, value)


class _SetNumber(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, value: float) -> Tensor:
        ctx.save_for_backward(mask)
        return _set_number(x, mask, value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        to_x = masked_set(grads[0], mask, 0.0)
        return torch.where(mask, 0.0, grads[0]) if to_x is None else to_x, None, None


class _SetTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return torch.where(mask, value, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        if not mode.seen_only_by_autograd(grad):
            return torch.where(mask, 0.0, grad), None, torch.where(mask, grad, 0.0)
        to_x, to_value = _Split.apply(grad, mask)
        return to_x, None, to_value


class _Split(torch.autograd.Function):
    """What a gradient gives to x (outside the mask) and to the value (inside), from one reading."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mask)
        return _split(grad, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return torch.where(mask, grads[1], grads[0]), None


# -- launching ------------------------------------------------------------------------------------------------------


def _set_number(x: Tensor, mask: Tensor, value: float) -> Tensor:
    out = torch.empty_like(x)
    if mask.is_contiguous() and x.is_contiguous():
        _launch(_set_flat, out, x, mask, float(value), x.numel(), WIDE=x.numel() >= LARGE)
    else:
        dims = collapsed(out, [x, mask])
        if len(dims) > MAX_DIMS:
            return torch.where(mask, value, x)
        _launch(_set_strided, out, x, mask, float(value), x.numel(), *_walk(dims), DIMS=len(dims), WIDE=_wide(x, dims))
    return out


def _split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    outside, inside = torch.empty_like(grad), torch.empty_like(grad)
    if mask.is_contiguous() and grad.is_contiguous():
        _launch(_split_flat, outside, inside, grad, mask, grad.numel(), WIDE=grad.numel() >= LARGE)
    else:
        dims = collapsed(outside, [grad, mask])
        if len(dims) > MAX_DIMS:
            return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
        walk, wide = _walk(dims), _wide(grad, dims)
        _launch(_split_strided, outside, inside, grad, mask, grad.numel(), *walk, DIMS=len(dims), WIDE=wide)
    return outside, inside


def _launch(kernel: Any, out: Tensor, *arguments: Any, **constants: Any) -> None:
    grid = (triton.cdiv(out.numel(), BLOCK),)
    if out.is_cuda and out.device.index != torch.cuda.current_device():
        with torch.cuda.device(out.device):
            kernel[grid](out, *arguments, **constants, BLOCK=BLOCK, num_warps=WARPS)
    else:
        kernel[grid](out, *arguments, **constants, BLOCK=BLOCK, num_warps=WARPS)


def _walk(dims: list[Dim]) -> list[int]:
    """The sizes but the outermost, then the strides of both operands; from the innermost dimension outwards."""
    inwards = dims[::-1]
    missing = MAX_DIMS - len(dims)
    sizes = [size for size, _ in inwards] + [1] * missing
    strides = [stride for _, both in inwards for stride in both] + [0] * 2 * missing
    return sizes[: MAX_DIMS - 1] + strides


def _wide(x: Tensor, dims: list[Dim]) -> bool:
    return x.numel() >= LARGE or any(span(dims, operand) >= LARGE for operand in (0, 1))


def _expanded(tensor: Tensor, x: Tensor) -> Tensor:
    return tensor if tensor.shape == x.shape else tensor.expand(x.shape)


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
