"""The Triton kernel for a masked write: x, the mask and the value are read once, the result is written once."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from outplace.updates import mode
from outplace.updates.kernels.layout import Dim, collapsed, span

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MAX_DIMS = 4
BLOCK, WARPS = 4096, 8
LARGE = 2**31 - BLOCK
"""From here on offsets do not fit into 32 bits."""


def masked_set(x: Tensor, mask: Tensor, value: Any, inverted: bool = False) -> Tensor | None:
    """The value where the mask is True (or, inverted, False), x elsewhere; None where the kernel does not apply."""
    if x.dtype not in DTYPES or not mode.seen_only_by_autograd(x) or not mode.seen_only_by_autograd(mask):
        return None
    if isinstance(value, Tensor):
        if not mode.seen_only_by_autograd(value):
            return None
        value = value.expand(x.shape)
    elif not isinstance(value, (int, float)):
        return None
    mask = mask.expand(x.shape)
    dims = _dims(x, mask, value)
    if len(dims) > MAX_DIMS:
        return None
    if not torch.is_grad_enabled() or not (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad)):
        return launch(x, mask, value, inverted, dims)  # which saves the bookkeeping of a Function
    result: Tensor = _MaskedSet.apply(x, mask, value, inverted, dims)
    return result


class _MaskedSet(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, mask: Tensor, value: Any, inverted: bool, dims: list[Dim]) -> Tensor:
        return launch(x, mask, value, inverted, dims)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, mask, _, ctx.inverted, _ = inputs
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        to_x = _zeroed(grad, mask, ctx.inverted) if ctx.needs_input_grad[0] else None
        to_value = _zeroed(grad, mask, not ctx.inverted) if ctx.needs_input_grad[2] else None
        return to_x, None, to_value, None, None


def _zeroed(grad: Tensor, mask: Tensor, inverted: bool) -> Tensor:
    """The gradient with zeros where the mask is True (or, inverted, False); differentiable in its turn."""
    done = masked_set(grad, mask, 0.0, inverted)
    if done is not None:
        return done
    return torch.where(mask, grad, 0.0) if inverted else torch.where(mask, 0.0, grad)


def launch(x: Tensor, mask: Tensor, value: Any, inverted: bool, dims: list[Dim]) -> Tensor:
    """Runs the kernel; mask and value have x's shape."""
    out = torch.empty_like(x)
    number = not isinstance(value, Tensor)
    wide = any(span(dims, operand) >= LARGE for operand in range(len(dims[0][1]))) or x.numel() >= LARGE
    sizes = [size for size, _ in dims]
    strides = [stride for _, strides in dims for stride in (*strides, 0)[:3]]
    missing = MAX_DIMS - len(dims)
    arguments = (
        out,
        x,
        mask,
        x if number else value,  # a pointer has to be given; it is not read
        float(value) if number else 0.0,
        x.numel(),
        *sizes,
        *([1] * missing),
        *strides,
        *([0] * 3 * missing),
    )
    grid = (triton.cdiv(x.numel(), BLOCK),)
    options = {"DIMS": len(dims), "NUMBER": number, "INVERTED": inverted, "WIDE": wide}
    if x.is_cuda and x.device.index != torch.cuda.current_device():
        with torch.cuda.device(x.device):
            _masked_set[grid](*arguments, **options, BLOCK=BLOCK, num_warps=WARPS)
    else:
        _masked_set[grid](*arguments, **options, BLOCK=BLOCK, num_warps=WARPS)
    return out


def _dims(x: Tensor, mask: Tensor, value: Any) -> list[Dim]:
    operands = [x, mask, value] if isinstance(value, Tensor) else [x, mask]
    if all(operand.is_contiguous() for operand in operands):
        return [(x.numel(), (1,) * len(operands))]
    return collapsed(torch.empty_like(x, device="meta"), operands)


@triton.jit  # type: ignore[untyped-decorator]
def _masked_set(
    out,
    x,
    mask,
    value,
    number,
    elements,
    n0,
    n1,
    n2,
    n3,
    x0,
    m0,
    v0,
    x1,
    m1,
    v1,
    x2,
    m2,
    v2,
    x3,
    m3,
    v3,
    DIMS: tl.constexpr,
    NUMBER: tl.constexpr,
    INVERTED: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One block of `out`, which is dense; sizes and strides go from the outermost dimension to the innermost."""
    block = tl.program_id(0)
    if WIDE:
        block = block.to(tl.int64)
    place = block * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    # the index along each dimension: what the sizes of the inner ones leave
    if DIMS == 1:
        at_x, at_m, at_v = place * x0, place * m0, place * v0
    if DIMS == 2:
        i0, i1 = place // n1, place % n1
        at_x, at_m, at_v = i0 * x0 + i1 * x1, i0 * m0 + i1 * m1, i0 * v0 + i1 * v1
    if DIMS == 3:
        rest, i2 = place // n2, place % n2
        i0, i1 = rest // n1, rest % n1
        at_x = i0 * x0 + i1 * x1 + i2 * x2
        at_m = i0 * m0 + i1 * m1 + i2 * m2
        at_v = i0 * v0 + i1 * v1 + i2 * v2
    if DIMS == 4:
        rest, i3 = place // n3, place % n3
        rest, i2 = rest // n2, rest % n2
        i0, i1 = rest // n1, rest % n1
        at_x = i0 * x0 + i1 * x1 + i2 * x2 + i3 * x3
        at_m = i0 * m0 + i1 * m1 + i2 * m2 + i3 * m3
        at_v = i0 * v0 + i1 * v1 + i2 * v2 + i3 * v3
    chosen = tl.load(mask + at_m, mask=inside, other=0)
    if INVERTED:
        chosen = chosen == 0
    else:
        chosen = chosen != 0
    old = tl.load(x + at_x, mask=inside)
    if NUMBER:
        new = tl.full((BLOCK,), number, old.dtype)
    else:
        new = tl.load(value + at_v, mask=inside)
    tl.store(out + place, tl.where(chosen, new, old), mask=inside)
