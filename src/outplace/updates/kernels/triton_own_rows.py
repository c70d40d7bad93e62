"""Kernels for rows that take one launch: each block has rows of its own, and looks through the whole index for them.

What a block finds it notes in the memory that its rows of the result will have: an int32 for each row, the last entry
of the index that names it, or -1; behind these the number of entries that are not the last for their row; and then
these entries, as far as there is room. The rows are then written from the last to the first, in groups, so that no
note is lost before it was read.
"""

import triton
import triton.language as tl

from outplace.updates.kernels.triton_kernels import row_of


@triton.jit  # type: ignore[untyped-decorator]
def _own_rows(out, size, width, OWN: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first of the block's rows, how many it has, where they begin, and the notes."""
    first = tl.program_id(0) * OWN
    base = first.to(tl.int64) * width
    return first, tl.minimum(OWN, size - first), base, (out + base).to(tl.pointer_type(tl.int32), bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def _own_entries(index, start, first, rows, entries, size, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some entries of the index, their rows among the block's own, and which of them name one of these."""
    entry = start + tl.arange(0, CHUNK)
    row = row_of(index, entry, entries, size) - first
    return entry, row, (entry < entries) & (row >= 0) & (row < rows)


@triton.jit  # type: ignore[untyped-decorator]
def _take_notes(  # type: ignore[no-untyped-def]
    notes, index, first, rows, entries, size, LISTED: tl.constexpr, OWN: tl.constexpr, CHUNK: tl.constexpr
):
    each = tl.arange(0, OWN)
    tl.store(notes + each, tl.full((OWN,), -1, tl.int32), mask=each < rows)
    if LISTED:
        tl.store(notes + rows, 0)
    tl.debug_barrier()
    for start in range(0, entries, CHUNK):
        entry, row, own = _own_entries(index, start, first, rows, entries, size, CHUNK)
        before = tl.atomic_max(notes + row, entry, mask=own, sem="relaxed", scope="cta")
        if LISTED:
            lost = own & (before >= 0)
            count = notes + rows + tl.zeros((CHUNK,), tl.int32)
            number = tl.atomic_add(count, 1, mask=lost, sem="relaxed", scope="cta")
            tl.store(notes + rows + 1 + number, tl.minimum(before, entry), mask=lost & (number < rows - 1))
    tl.debug_barrier()


@triton.jit  # type: ignore[untyped-decorator]
def _own_places(notes, group, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of a group of the block's rows the noted entries, and where their elements are; the notes may be lost then."""
    each = group * ROWS + tl.arange(0, ROWS)
    noted = tl.load(notes + each, mask=each < rows, other=-1)
    tl.debug_barrier()
    column = tl.arange(0, COLUMNS)
    inside = (each < rows)[:, None] & (column < width)[None, :]
    return noted, each[:, None].to(tl.int64) * width + column[None, :], column, inside


@triton.jit(do_not_specialize=["entries", "size"])  # type: ignore[untyped-decorator]
def put_own_rows(  # type: ignore[no-untyped-def]
    out, x, index, value, crowded, entries, size, width,
    ADD: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
    LISTED_COLUMNS: tl.constexpr,
):  # fmt: skip
    """A copy of x with rows of the value put, of which the last for a place counts, or added.

    If so many are added to the rows of one block that other kernels would be quicker, `crowded` is set.
    """
    first, rows, base, notes = _own_rows(out, size, width, OWN)
    _take_notes(notes, index, first, rows, entries, size, ADD, OWN, CHUNK)
    if ADD:
        count = tl.load(notes + rows)
        listed = tl.arange(0, OWN) < count
        others = tl.load(notes + rows + 1 + tl.arange(0, OWN), mask=listed & (count < rows), other=0)
    for group in range(OWN // ROWS - 1, -1, -1):
        noted, place, column, inside = _own_places(notes, group, rows, width, ROWS, COLUMNS)
        named = (noted >= 0)[:, None]
        if ADD:
            named = named & (count < rows)
            old = tl.load(x + base + place, mask=inside)
        else:
            old = tl.load(x + base + place, mask=inside & (named == 0))
        new = tl.load(value + noted[:, None].to(tl.int64) * width + column[None, :], mask=inside & named, other=0.0)
        tl.store(out + base + place, old + new if ADD else tl.where(named, new, old), mask=inside)
    if ADD:
        tl.debug_barrier()
        if count >= rows:  # there was no room for the list
            tl.store(crowded, 1)
            for start in range(0, entries, 512):
                entry, row, own = _own_entries(index, start, first, rows, entries, size, 512)
                _add_rows(out + base, value, row, entry, own, width, 8)
        elif count > 0:
            their_row = row_of(index, tl.where(listed, others, entries), entries, size) - first
            _add_rows(out + base, value, their_row, others, listed, width, LISTED_COLUMNS)


@triton.jit  # type: ignore[untyped-decorator]
def _add_rows(out, value, row, entry, chosen, width, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = chosen[:, None] & (column < width)[None, :]
        new = tl.load(value + entry[:, None].to(tl.int64) * width + column[None, :], mask=inside)
        tl.atomic_add(out + row[:, None].to(tl.int64) * width + column[None, :], new, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["entries", "size"])  # type: ignore[untyped-decorator]
def fill_own_rows(  # type: ignore[no-untyped-def]
    out, x, index, number, entries, size, width,
    OWN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A copy of x with the number in rows."""
    first, rows, base, notes = _own_rows(out, size, width, OWN)
    _take_notes(notes, index, first, rows, entries, size, False, OWN, CHUNK)
    for group in range(OWN // ROWS - 1, -1, -1):
        noted, place, _, inside = _own_places(notes, group, rows, width, ROWS, COLUMNS)
        named = (noted >= 0)[:, None]
        old = tl.load(x + base + place, mask=inside & (named == 0))
        tl.store(out + base + place, tl.where(named, tl.full((ROWS, COLUMNS), number, old.dtype), old), mask=inside)


@triton.jit(do_not_specialize=["entries", "size"])  # type: ignore[untyped-decorator]
def split_rows(  # type: ignore[no-untyped-def]
    to_x, to_value, grad, index, crowded, entries, size, width,
    TELL: tl.constexpr, OWN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
    LISTED_COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient with zeros in the rows that the index names; and these rows, for the last entry that names each."""
    first, rows, base, notes = _own_rows(to_x, size, width, OWN)
    _take_notes(notes, index, first, rows, entries, size, True, OWN, CHUNK)
    count = tl.load(notes + rows)
    if count >= rows:  # there was no room for the list
        if TELL:
            tl.store(crowded, 1)
        for start in range(0, entries, 512):
            entry, row, own = _own_entries(index, start, first, rows, entries, size, 512)
            lost = own & (tl.load(notes + row, mask=own, other=0) != entry)
            _clear_rows(to_value, entry, lost, width, 8)
    elif count > 0:
        listed = tl.arange(0, OWN) < count
        others = tl.load(notes + rows + 1 + tl.arange(0, OWN), mask=listed, other=0)
        _clear_rows(to_value, others, listed, width, LISTED_COLUMNS)
    for group in range(OWN // ROWS - 1, -1, -1):
        noted, place, column, inside = _own_places(notes, group, rows, width, ROWS, COLUMNS)
        named = (noted >= 0)[:, None]
        whole = tl.load(grad + base + place, mask=inside)
        tl.store(to_x + base + place, tl.where(named, tl.zeros((ROWS, COLUMNS), whole.dtype), whole), mask=inside)
        tl.store(to_value + noted[:, None].to(tl.int64) * width + column[None, :], whole, mask=inside & named)


@triton.jit  # type: ignore[untyped-decorator]
def _clear_rows(out, entry, chosen, width, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = chosen[:, None] & (column < width)[None, :]
        place = out + entry[:, None].to(tl.int64) * width + column[None, :]
        tl.store(place, tl.zeros(place.shape, out.dtype.element_ty), mask=inside)
