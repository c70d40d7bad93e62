"""The kernels, in Triton: each program writes one block of the result.

Those for masks have two forms: `flat` for contiguous tensors, and one that walks strides.
"""

import triton
import triton.language as tl


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
def set_flat(out, x, mask, number, elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The number where the mask is True, x elsewhere."""
    place, inside = _places(elements, WIDE, BLOCK)
    chosen = tl.load(mask + place, mask=inside, other=0) != 0
    old = tl.load(x + place, mask=inside)
    tl.store(out + place, tl.where(chosen, tl.full((BLOCK,), number, old.dtype), old), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def set_strided(  # type: ignore[no-untyped-def]
    out, x, mask, number, elements,
    n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3,
    DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same by strides."""
    place, inside = _places(elements, WIDE, BLOCK)
    at_x, at_m = _offsets(place, n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3, DIMS)
    chosen = tl.load(mask + at_m, mask=inside, other=0) != 0
    old = tl.load(x + at_x, mask=inside)
    tl.store(out + place, tl.where(chosen, tl.full((BLOCK,), number, old.dtype), old), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def split_flat(outside, inside_, grad, mask, elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient outside the mask and inside it, with zeros elsewhere."""
    place, inside = _places(elements, WIDE, BLOCK)
    chosen = tl.load(mask + place, mask=inside, other=0) != 0
    value = tl.load(grad + place, mask=inside)
    zero = tl.zeros((BLOCK,), value.dtype)
    tl.store(outside + place, tl.where(chosen, zero, value), mask=inside)
    tl.store(inside_ + place, tl.where(chosen, value, zero), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def split_strided(  # type: ignore[no-untyped-def]
    outside, inside_, grad, mask, elements,
    n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3,
    DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same by strides."""
    place, inside = _places(elements, WIDE, BLOCK)
    at_x, at_m = _offsets(place, n0, n1, n2, x0, m0, x1, m1, x2, m2, x3, m3, DIMS)
    chosen = tl.load(mask + at_m, mask=inside, other=0) != 0
    value = tl.load(grad + at_x, mask=inside)
    zero = tl.zeros((BLOCK,), value.dtype)
    tl.store(outside + place, tl.where(chosen, zero, value), mask=inside)
    tl.store(inside_ + place, tl.where(chosen, value, zero), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def set_part(  # type: ignore[no-untyped-def]
    out, x, value, elements, span, first, last, SKIP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """x in stretches of `span` elements, each with the value from its first-th element to before its last-th."""
    place, inside = _places(elements, WIDE, BLOCK)
    stretch = place // span
    offset = place - stretch * span
    chosen = (offset >= first) & (offset < last)
    old = tl.load(x + place, mask=inside & (chosen == 0) if SKIP else inside)
    new = tl.load(value + stretch * (last - first) + (offset - first), mask=inside & chosen)
    tl.store(out + place, tl.where(chosen, new, old), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def set_part_to_number(  # type: ignore[no-untyped-def]
    out, x, number, elements, span, first, last, SKIP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """The same with a number."""
    place, inside = _places(elements, WIDE, BLOCK)
    offset = place - place // span * span
    chosen = (offset >= first) & (offset < last)
    old = tl.load(x + place, mask=inside & (chosen == 0) if SKIP else inside)
    tl.store(out + place, tl.where(chosen, tl.full((BLOCK,), number, old.dtype), old), mask=inside)
