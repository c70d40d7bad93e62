"""Which kernels an update of a CUDA tensor takes, and how they are started."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outplace.updates.kernels import triton_kernels as kernel
from outplace.updates.kernels import triton_own_rows as own
from outplace.updates.kernels.function import claims
from outplace.updates.kernels.layout import collapsed, span

DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
MAX_DIMS = 4
BLOCK, WARPS = 1024, 4
TILE, MOST_BLOCKS = 8192, 256
"""How many elements a block writes at once, and how many blocks share the rows, where each has rows of its own."""
MOST_OWNED, MOST_OWN_ROWS, MOST_READ_BY_ALL, FEW_ENTRIES = 1 << 24, 4096, 8192, 128
"""Up to so many elements of x, rows of a block, and entries of the index, of which each block reads all, that is quick:
a launch takes the time of ten megabytes. Entries that name the same few rows are few, or the work is that of one block.
"""
MOST_IN_ONE_BLOCK, ENTRIES_IN_ONE_BLOCK = 8 * BLOCK, 128
"""So many elements are as quickly copied and written to by one block, which can do the one after the other."""
MOST_ENTRIES = 2**31 - 2**16
MOST_ROW_ELEMENTS = 65_535 * BLOCK
"""A row that is longer has too many blocks for CUDA."""
MOST_KEPT = 1024
"""So many launches are remembered, and so many walks."""
MOST_ANYWHERE = 1 << 20
"""With fewer elements parts have one kernel, whether or not they begin at a multiple of 16 elements."""
LARGE = 2**31 - 2**16
"""From here on offsets may not fit into 32 bits."""

OUT, X, INDEX, VALUE, LAST, LATEST, SECOND, CROWDED = range(8)
"""The operands of an update: its result, what it is made of, what its kernels leave for each other and backward, a
second result, and where they say that other kernels would have been quicker.
"""
Shape = list[int] | None
"""Of a result; None for one like x."""


class Start(NamedTuple):
    """How a kernel is started: its arguments are operands, then numbers of any value, then sizes and constants.

    The numbers are the value of the update, where it is one, and those of `numbers`. For others of the rest Triton may
    compile anew.
    """

    kernel: Any
    grid: tuple[int, int]
    operands: tuple[int, ...]
    rest: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    takes_value: bool = False
    warps: int = WARPS


Starts = tuple[Start, ...]


class Steps:
    """Kernels that are started one after the other. Called with the operands it makes one tensor or two of them."""

    __slots__ = ("crowded", "shapes", "starts")

    def __init__(self, starts: Starts, shapes: tuple[Shape, ...] = (None,), crowded: Tensor | None = None) -> None:
        self.starts, self.shapes, self.crowded = starts, shapes, crowded

    def __call__(self, x: Tensor, index: Any, value: Any, *more: Tensor) -> Any:
        """The operands are OUT, which is made here, X, INDEX, VALUE, and those that the kernels need beyond them."""
        results = [torch.empty_like(x) if shape is None else x.new_empty(shape) for shape in self.shapes]
        operands: dict[int, Any] = dict(enumerate((results[0], x, index, value, *more)))
        operands[SECOND], operands[CROWDED] = results[-1], self.crowded
        for start in self.starts:
            launch(start, [operands[i] for i in start.operands], value)
        return results[0] if len(results) == 1 else tuple(results)


def set_number(x: Tensor, mask: Tensor) -> Starts | None:
    """A number where the mask, which has x's shape, is True, x elsewhere; None for too many dimensions."""
    elements = x.numel()
    operands = (OUT, X, INDEX)
    if mask.is_contiguous() and x.is_contiguous():
        flat = (elements, elements >= LARGE, BLOCK)
        return (Start(kernel.set_flat, _blocks(elements), operands, flat, takes_value=True),)
    rest = _walk(x, mask)
    if rest is None:
        return None
    return (Start(kernel.set_strided, _blocks(elements), operands, rest, takes_value=True),)


def set_tensor(x: Tensor, mask: Tensor, value: Tensor) -> Starts | None:
    """The same with a tensor; None if not all of them, which have one shape, lie without gaps."""
    if not (mask.is_contiguous() and x.is_contiguous() and value.is_contiguous()):
        return None
    elements = x.numel()
    flat = (elements, elements >= LARGE, BLOCK)
    return (Start(kernel.set_flat_to_tensor, _blocks(elements), (OUT, X, INDEX, VALUE), flat),)


def split(grad: Tensor, mask: Tensor) -> Starts | None:
    """The gradient outside the mask and inside it, with zeros elsewhere, from one reading; None as above."""
    elements = grad.numel()
    operands = (OUT, SECOND, X, INDEX)
    if mask.is_contiguous() and grad.is_contiguous():
        return (Start(kernel.split_flat, _blocks(elements), operands, (elements, elements >= LARGE, BLOCK)),)
    rest = _walk(grad, mask)
    return None if rest is None else (Start(kernel.split_strided, _blocks(elements), operands, rest),)


def set_part(x: Tensor, dim: int, start: int, stop: int, number: bool) -> Starts:
    """x, which is contiguous, with the part from start to stop of a dimension replaced by a number, or by a tensor."""
    elements, shape = x.numel(), [*x.shape]
    inner = math.prod(shape[dim + 1 :])
    first, last = start * inner, stop * inner
    # What is not needed is left out where it is wide; elsewhere it lies in the same sectors of memory anyway.
    wide = (last - first) * x.element_size() >= 128
    places = (elements, shape[dim] * inner, first, last)
    rest = (wide, elements >= LARGE, BLOCK)
    operands = (OUT, X) if number else (OUT, X, VALUE)
    if elements < MOST_ANYWHERE:
        any_part = kernel.set_any_part_to_number if number else kernel.set_any_part
        return (Start(any_part, _blocks(elements), operands, rest, places, takes_value=number),)
    part = kernel.set_part_to_number if number else kernel.set_part
    return (Start(part, _blocks(elements), operands, places + rest, takes_value=number),)


def put_rows(x: Tensor, entries: int, *, add: bool = False, find_last: bool = False) -> Starts:
    """x with so many rows of a value put at those that the index names, or added to them; all are contiguous.

    If it is to be found which of several rows for one place is the last one, that is written to LAST; `claims` says
    whether it needs LATEST.
    """
    elements, size = x.numel(), x.size(0)
    width = elements // size
    of_last = LAST if find_last else INDEX
    if _one_block_does(elements, entries, width):
        rest: tuple[int, ...] = (add, find_last, ENTRIES_IN_ONE_BLOCK, BLOCK)
        numbers = (entries, elements, size, width)
        return (Start(kernel.in_one_block, (1, 1), (OUT, X, INDEX, VALUE, of_last), rest, numbers),)
    claimed = find_last and claims(entries)
    of_latest = LATEST if claimed else INDEX
    starts: Starts = (_copy(elements, size, of_latest, claimed),)
    if claimed:
        starts += (Start(kernel.claim, _blocks(entries), (INDEX, LATEST), (size, BLOCK), (entries,)),)
    compares = find_last and not claimed
    grid, rows, columns = _blocks_of_rows(entries, width, 16 if compares else BLOCK)
    rest = (size, width, add, compares, claimed, rows, columns)
    return *starts, Start(kernel.put_rows, grid, (OUT, INDEX, VALUE, of_last, of_latest), rest, (entries,))


def fill_rows(x: Tensor, entries: int) -> Starts:
    """x with a number in the rows that an index with so many entries names."""
    elements, size = x.numel(), x.size(0)
    width = elements // size
    if _one_block_does(elements, entries, width):
        numbers = (entries, elements, size, width)
        return (Start(kernel.fill_in_one_block, (1, 1), (OUT, X, INDEX), (BLOCK,), numbers, takes_value=True),)
    grid, rows, columns = _blocks_of_rows(entries, width, BLOCK)
    rest = (size, width, rows, columns)
    fill = Start(kernel.fill_rows, grid, (OUT, INDEX), rest, (entries,), takes_value=True)
    return _copy(elements, size, INDEX, False), fill


def take_rows(x: Tensor, entries: int, some: bool) -> Starts:
    """The rows of x that the index names; if only some of them, as VALUE says, zeros for the others."""
    size = x.size(0)
    width = x.numel() // size
    grid, rows, columns = _blocks_of_rows(entries, width, BLOCK)
    operands = (OUT, X, INDEX, VALUE if some else INDEX)
    return (Start(kernel.take_rows, grid, operands, (size, width, some, rows, columns), (entries,)),)


def put_own_rows(x: Tensor, entries: int, *, add: bool = False) -> Starts:
    """What `put_rows` does for an x of which `owns_rows` is true; of several rows for one place the last one counts."""
    operands = (OUT, X, INDEX, VALUE, CROWDED if add else INDEX)
    return (_in_one_launch(own.put_own_rows, operands, x, entries, (add,), listed=True),)


def fill_own_rows(x: Tensor, entries: int) -> Starts:
    """What `fill_rows` does for such an x."""
    return (_in_one_launch(own.fill_own_rows, (OUT, X, INDEX), x, entries, takes_value=True),)


def split_rows(grad: Tensor, entries: int, tell: bool) -> Starts:
    """The gradient, of which `owns_rows` is true, with zeros in the rows that the index names; and these rows.

    Where several entries name a row it goes to the last one, and the others have zeros. Is it to be told if they crowd?
    """
    operands = (OUT, SECOND, X, INDEX, CROWDED if tell else INDEX)
    return (_in_one_launch(own.split_rows, operands, grad, entries, (tell,), listed=True),)


def owns_rows(x: Tensor, entries: int, all_are_work: bool = False) -> bool:
    """Is it quicker to do it in one launch, with each block looking for its own rows, for so many entries?

    If all entries that name the same row are work, not where they were seen to crowd into one block: ids of padding,
    say.
    """
    elements, size = x.numel(), x.size(0)
    width = elements // size
    if elements > MOST_OWNED or width > TILE or size > MOST_BLOCKS * MOST_OWN_ROWS or entries > MOST_READ_BY_ALL:
        return False
    if (2 * entries > size and entries > FEW_ENTRIES) or width * x.element_size() < 8:  # no room for the notes
        return False
    if not all_are_work:
        return True
    note = crowded(x, entries)
    return note is not None and not note.item()


def crowded(x: Tensor, entries: int) -> Tensor | None:
    """Where kernels tell that so many entries for such a tensor have crowded into one block; None if they cannot.

    It is memory that kernels and Python have in common, which nobody waits for. It stays for ever: a kernel in one of
    CUDA's graphs may be started at any time.
    """
    key = x.shape, x.dtype, entries
    if key not in _crowded:
        if len(_crowded) >= MOST_KEPT or torch.cuda.is_current_stream_capturing():
            return None
        _crowded[key] = _notes()[len(_crowded), :1]
    return _crowded[key]


_crowded: dict[Any, Tensor] = {}


@functools.cache
def _notes() -> Tensor:
    return torch.zeros(MOST_KEPT, 4, dtype=torch.int32, pin_memory=True)  # each where 16 bytes begin


def _in_one_launch(
    kernel: Any,
    operands: tuple[int, ...],
    x: Tensor,
    entries: int,
    flags: tuple[int, ...] = (),
    *,
    listed: bool = False,
    takes_value: bool = False,
) -> Start:
    elements, size = x.numel(), x.size(0)
    width = elements // size
    columns = _power(width)
    own_rows = max(2, min(_power(size), max(TILE // columns, _power(-(-size // MOST_BLOCKS)))))
    rows = min(TILE // columns, own_rows)
    chunk = next(chunk for chunk in (FEW_ENTRIES, 1024, 4096) if entries <= chunk or chunk == 4096)
    rest: tuple[int, ...] = (width, *flags, own_rows, rows, columns, chunk)
    if listed:
        rest += (max(rows * columns // (2 * own_rows), 1),)
    grid, numbers, warps = (-(-size // own_rows), 1), (entries, size), 16 if elements > TILE else 8
    return Start(kernel, grid, operands, rest, numbers, takes_value, warps)


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()


def _copy(elements: int, size: int, latest: int, clear: bool) -> Start:
    return Start(kernel.copy, _blocks(elements), (OUT, X, latest), (elements, size, clear, elements >= LARGE, BLOCK))


def _one_block_does(elements: int, entries: int, width: int) -> bool:
    return elements <= MOST_IN_ONE_BLOCK and entries <= ENTRIES_IN_ONE_BLOCK and entries * width <= MOST_IN_ONE_BLOCK


def _blocks(elements: int) -> tuple[int, int]:
    return -(-elements // BLOCK), 1


def _blocks_of_rows(entries: int, width: int, most_rows: int) -> tuple[tuple[int, int], int, int]:
    """How many blocks, and how many rows and columns each has."""
    columns = min(_power(width), BLOCK)
    rows = min(BLOCK // columns, most_rows)
    return (-(-entries // rows), -(-width // columns)), rows, columns


def _walk(x: Tensor, mask: Tensor) -> tuple[int, ...] | None:
    """What the kernels need to walk x and the mask in the order of a result like x; None for too many dimensions."""
    key = x.shape, x.stride(), mask.stride()
    if key not in _walks:
        if len(_walks) >= MOST_KEPT:
            _walks.clear()
        dims = collapsed(torch.empty_like(x, device="meta"), [x, mask])
        inwards, missing = dims[::-1], MAX_DIMS - len(dims)
        sizes = [size for size, _ in inwards] + [1] * missing
        strides = [stride for _, both in inwards for stride in both] + [0] * 2 * missing
        wide = x.numel() >= LARGE or any(span(dims, operand) >= LARGE for operand in (0, 1))
        walk = (x.numel(), *sizes[: MAX_DIMS - 1], *strides, len(dims), wide, BLOCK)
        _walks[key] = walk if missing >= 0 else None
    return _walks[key]


_walks: dict[Any, tuple[int, ...] | None] = {}
"""By the shape and strides: to find them takes longer than to start the kernel."""


# -- starting a kernel ----------------------------------------------------------------------------------------------


def launch(start: Start, tensors: Any, value: Any) -> None:
    """Starts the kernel; its arguments are the tensors, numbers of any value, and the rest (sizes and constants).

    Triton compiles anew for other dtypes, alignments, sizes and constants, and looks all of that up at every launch,
    which takes longer than the launch. What it has once started for the same of these is started again directly.
    """
    device = tensors[0].get_device()
    if device != torch._C._cuda_getDevice():
        with torch.cuda.device(device):
            return launch(start, tensors, value)
    numbers = (float(value), *start.numbers) if start.takes_value else start.numbers
    addresses = [tensor.data_ptr() for tensor in tensors]
    together = 0
    for address in addresses:
        together |= address
    aligned: Any = together & 15 == 0
    if not aligned:  # then it counts which of them are not
        aligned = tuple(address & 15 == 0 for address in addresses)
    key = _key(start, device, tensors[0].dtype, aligned)
    compiled = _compiled.get(key)
    if compiled is None or not _directly:
        if len(_compiled) >= MOST_KEPT:
            _compiled.clear()
        _compiled[key] = start.kernel[start.grid](*tensors, *numbers, *start.rest, num_warps=start.warps)
    else:
        # an address is taken as it is, while of a tensor Triton asks for it and then asks CUDA about it
        compiled.run(
            *start.grid, 1, torch._C._cuda_getCurrentRawStream(device), compiled.function, compiled.packed_metadata,
            None, None, None, *addresses, *numbers, *start.rest,
        )  # fmt: skip
    return None


def _key(start: Start, device: int, dtype: torch.dtype, aligned: Any) -> tuple[Any, ...]:
    """What a kernel is compiled for; to hash the kernel itself takes long."""
    return id(start.kernel), device, dtype, aligned, start.rest, start.warps


_compiled: dict[Any, Any] = {}
"""What has been started, by what it was compiled for."""
_directly = True


def launches(steps: Steps, x: Tensor) -> tuple[tuple[tuple[Any, ...], ...], tuple[Any, ...]] | None:
    """What CUDA's driver has to know to start each of the kernels, and these kernels; None if one is forgotten.

    The arguments are pairs: what it is, and the number of an operand or the value; see `Argument` in _again.cpp.
    """
    result, kernels, crowded = [], [], steps.crowded
    for start in steps.starts:
        dtype = x.dtype if start.operands[0] == OUT else torch.int64
        compiled = _compiled.get(_key(start, x.get_device(), dtype, True))
        if compiled is None:
            return None
        given: list[Any] = [("t", operand) for operand in start.operands if operand != CROWDED]
        given += [("l", crowded.data_ptr())] if crowded is not None and CROWDED in start.operands else []
        given += [("f", 0)] if start.takes_value else []
        given += [(None, int(value)) for value in (*start.numbers, *start.rest)]
        arguments = [
            (what or _KINDS[kind], value)
            for (what, value), kind in zip(given, compiled.src.signature.values(), strict=True)
            if kind != "constexpr"
        ]
        metadata = compiled.metadata
        threads = 32 * metadata.num_warps
        result.append((compiled.function, *start.grid, threads, metadata.shared, tuple(arguments)))
        kernels.append(compiled)
    return tuple(result), tuple(kernels)


_KINDS = {"i32": "i", "i64": "l"}


def probe() -> None:
    """Runs a kernel as Triton would start it and directly; raises where neither works, and remembers what does."""
    global _directly
    x = torch.zeros(1, device="cuda")
    mask = x == 0
    steps = Steps(set_number(x, mask) or ())
    try:
        for _ in range(2):
            steps(x, mask, 1.0)
    except (AttributeError, TypeError, ValueError):  # a Triton that starts its kernels in another way
        _directly = False
        steps(x, mask, 1.0)
