"""The shape of an elementwise kernel: the fewest dimensions over which every operand has one stride each."""

from __future__ import annotations

from torch import Tensor

Dim = tuple[int, tuple[int, ...]]
"""A size, and the stride of each operand."""


def collapsed(out: Tensor, operands: list[Tensor]) -> list[Dim]:
    """The dimensions from the outermost of `out`'s memory to the innermost, neighbours joined where all allow it.

    `out` is dense, so that an element's place in its memory is its number in this order; operands have out's shape.
    """
    dims = [(size, tuple(t.stride(dim) for t in operands)) for dim, size in enumerate(out.shape)]
    order = sorted(range(out.dim()), key=lambda dim: -out.stride(dim))
    joined: list[Dim] = []
    for size, strides in (dims[dim] for dim in order if out.shape[dim] != 1):
        if joined and joined[-1][1] == tuple(size * stride for stride in strides):
            joined[-1] = (joined[-1][0] * size, strides)
        else:
            joined.append((size, strides))
    return joined or [(1, (1,) * len(operands))]


def span(dims: list[Dim], operand: int) -> int:
    """The largest offset of an operand."""
    return sum((size - 1) * strides[operand] for size, strides in dims)
