"""The kernels themselves, in Triton: each works on one block of the result, and reads and writes what it must once.

Those for masks have two forms each, `flat` for operands that lie alike and without gaps, and one that walks strides: a
launch takes time for every argument.
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
def set_flat_to_tensor(out, x, mask, value, elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The value where the mask is True, x elsewhere."""
    place, inside = _places(elements, WIDE, BLOCK)
    chosen = tl.load(mask + place, mask=inside, other=0) != 0
    old, new = tl.load(x + place, mask=inside), tl.load(value + place, mask=inside)
    tl.store(out + place, tl.where(chosen, new, old), mask=inside)


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


PLACES = ["elements", "span", "first", "last"]
set_any_part = triton.jit(do_not_specialize=PLACES)(set_part.fn)
set_any_part_to_number = triton.jit(do_not_specialize=PLACES)(set_part_to_number.fn)
"""The same, compiled once for all places."""


@triton.jit  # type: ignore[untyped-decorator]
def copy(out, x, latest, elements, size, CLEAR: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """A copy of x; and of every row of it nothing is said yet in `latest`."""
    place, inside = _places(elements, WIDE, BLOCK)
    tl.store(out + place, tl.load(x + place, mask=inside), mask=inside)
    if CLEAR:
        tl.store(latest + place, tl.full((BLOCK,), -1, tl.int32), mask=place < size)


@triton.jit(do_not_specialize=["entries"])  # type: ignore[untyped-decorator]
def claim(index, latest, entries, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of every row that the index names, the last entry that does."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = row_of(index, entry, entries, size)
    tl.atomic_max(latest + row, entry, mask=entry < entries, sem="relaxed")


@triton.jit(do_not_specialize=["entries"])  # type: ignore[untyped-decorator]
def put_rows(  # type: ignore[no-untyped-def]
    out, index, value, last, latest, entries, size, width,
    ADD: tl.constexpr, FIND: tl.constexpr, CLAIMED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of the value, put or added; if only the last for a place counts, that is found here or was by `claim`."""
    entry = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = row_of(index, entry, entries, size)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    counts = entry < entries
    if FIND:
        later = tl.zeros((ROWS,), tl.int32)
        for start in range(tl.program_id(0) * ROWS, entries, 512):
            other = start + tl.arange(0, 512)
            same_row = tl.load(index + other, mask=other < entries, other=0)
            same_row = tl.where(same_row < 0, same_row + size, same_row)[None, :] == row[:, None]
            after = (other[None, :] > entry[:, None]) & (other < entries)[None, :]
            later = tl.maximum(later, tl.max((same_row & after).to(tl.int32), axis=1))
        is_last = later == 0
    if CLAIMED:
        is_last = tl.load(latest + row, mask=counts, other=-1) == entry
    if FIND or CLAIMED:
        if tl.program_id(1) == 0:
            tl.store(last + entry, is_last.to(tl.int64), mask=counts)
        counts = counts & is_last
    inside = counts[:, None] & (column < width)[None, :]
    new = tl.load(value + entry[:, None] * width + column[None, :], mask=inside)
    target = out + row[:, None] * width + column[None, :]
    if ADD:
        tl.atomic_add(target, new, mask=inside, sem="relaxed")
    else:
        tl.store(target, new, mask=inside)


@triton.jit(do_not_specialize=["entries"])  # type: ignore[untyped-decorator]
def fill_rows(out, index, number, entries, size, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The number in rows of what is there."""
    entry = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = row_of(index, entry, entries, size)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (entry < entries)[:, None] & (column < width)[None, :]
    new = tl.full((ROWS, BLOCK), number, out.dtype.element_ty)
    tl.store(out + row[:, None] * width + column[None, :], new, mask=inside)


@triton.jit(do_not_specialize=["entries"])  # type: ignore[untyped-decorator]
def take_rows(  # type: ignore[no-untyped-def]
    out, x, index, some, entries, size, width, SOME: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """The rows of x that the index names, or zeros for those entries that do not count."""
    entry = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = row_of(index, entry, entries, size)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    counts = entry < entries
    inside = counts[:, None] & (column < width)[None, :]
    if SOME:
        counts = tl.load(some + entry, mask=counts, other=0) != 0
    taken = tl.load(x + row[:, None] * width + column[None, :], mask=inside & counts[:, None], other=0.0)
    tl.store(out + entry[:, None] * width + column[None, :], taken, mask=inside)


@triton.jit(do_not_specialize=["entries", "elements", "size", "width"])  # type: ignore[untyped-decorator]
def in_one_block(  # type: ignore[no-untyped-def]
    out, x, index, value, last, entries, elements, size, width,
    ADD: tl.constexpr, FIND: tl.constexpr, ENTRIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A copy of x with rows of the value put or added; if only the last for a place counts, that is found first."""
    _copy_all(out, x, elements, BLOCK)
    if FIND:
        each = tl.arange(0, ENTRIES)
        its_row = tl.load(index + each, mask=each < entries, other=0)
        its_row = tl.where(its_row < 0, its_row + size, its_row)
        later = (each[None, :] > each[:, None]) & (each < entries)[None, :] & (its_row[None, :] == its_row[:, None])
        tl.store(last + each, (tl.max(later.to(tl.int32), axis=1) == 0).to(tl.int64), mask=each < entries)
    tl.debug_barrier()
    for start in range(0, entries * width, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < entries * width
        entry = place // width
        row = row_of(index, entry, entries, size)
        new = tl.load(value + place, mask=inside)
        target = out + row * width + (place - entry * width)
        if ADD:
            tl.atomic_add(target, new, mask=inside, sem="relaxed")
        else:
            if FIND:
                inside = inside & (tl.load(last + entry, mask=inside, other=0) != 0)
            tl.store(target, new, mask=inside)


@triton.jit(do_not_specialize=["entries", "elements", "size", "width"])  # type: ignore[untyped-decorator]
def fill_in_one_block(  # type: ignore[no-untyped-def]
    out, x, index, number, entries, elements, size, width, BLOCK: tl.constexpr
):
    """A copy of x with the number in rows."""
    _copy_all(out, x, elements, BLOCK)
    tl.debug_barrier()
    for start in range(0, entries * width, BLOCK):
        place = start + tl.arange(0, BLOCK)
        entry = place // width
        row = row_of(index, entry, entries, size)
        new = tl.full((BLOCK,), number, out.dtype.element_ty)
        tl.store(out + row * width + (place - entry * width), new, mask=place < entries * width)


@triton.jit  # type: ignore[untyped-decorator]
def _copy_all(out, x, elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    for start in range(0, elements, BLOCK):
        place = start + tl.arange(0, BLOCK)
        tl.store(out + place, tl.load(x + place, mask=place < elements), mask=place < elements)


@triton.jit
def row_of(index, entry, entries, size):  # type: ignore[no-untyped-def]
    """The row that an entry of the index names; the device stops for one that is not there, as it does in ATen."""
    row = tl.load(index + entry, mask=entry < entries, other=0)
    row = tl.where(row < 0, row + size, row)
    _stop_unless((row >= 0) & (row < size))
    return row


@triton.jit
def _stop_unless(condition):  # type: ignore[no-untyped-def]
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.eq.s32 p, $1, 0; @p trap; mov.u32 $0, $1; }",
        "=r,r", [condition.to(tl.int32)], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
