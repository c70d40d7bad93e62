"""Random tensors and random indices into them, for hypothesis."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from outplace.updates import cpu_masks, cuda_kernels, fast_paths, masked_set, parts


def reference(x: Tensor, index: Any, v: Any) -> Tensor:
    """What `x` is after `x[index] = v`."""
    y = x.clone()
    y[index] = v
    return y


def entry_by_entry(x: Tensor, index: Any, v: Any, operation: Any) -> Tensor:
    """The operation applied for one entry of the index after the other, on scalars: slow, and plain to see."""
    with torch._C._DisableFuncTorch():  # in older torch its tensors make no lists
        places = torch.arange(x.numel()).reshape(x.shape)[index]
        positions = places.reshape(-1).tolist()
    values = torch.as_tensor(v, dtype=x.dtype).expand(places.shape).reshape(-1).unbind()
    elements = list(x.reshape(-1).unbind())
    for position, value in zip(positions, values, strict=True):
        elements[position] = operation(elements[position], value)
    return torch.stack(elements).reshape(x.shape)


@st.composite
def tensors(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = (torch.float64,), most: int = 4) -> Tensor:
    """A tensor of up to three dimensions, contiguous, transposed, strided or expanded."""
    shape = draw(st.lists(st.integers(1, most), min_size=1, max_size=3))
    dtype = draw(st.sampled_from(dtypes))
    torch.manual_seed(draw(st.integers(0, 1000)))
    layout = draw(st.sampled_from(("contiguous", "transposed", "strided", "expanded")))
    if layout == "strided":
        x = (torch.rand([*shape[:-1], shape[-1] * 2]) * 3 + 0.5)[..., ::2]
    elif layout == "expanded":
        x = (torch.rand([1, *shape[1:]]) * 3 + 0.5).expand(shape)
    else:
        x = torch.rand(shape) * 3 + 0.5
    if layout == "transposed":
        x = x.transpose(0, -1)
    return x.to(dtype) if x.dtype is not dtype else x


@st.composite
def items(draw: st.DrawFn, size: int, entries: int) -> Any:
    """An index of one axis of this size; index tensors and lists have this many entries."""
    kind = draw(st.sampled_from(("int", "slice", "slice", "tensor", "list", "mask")))
    numbers = st.integers(-size, size - 1)
    if kind == "int":
        return draw(numbers)
    if kind == "slice":
        bounds = st.none() | st.integers(-size - 1, size + 1)
        return slice(draw(bounds), draw(bounds), draw(st.none() | st.integers(1, 3)))
    if kind == "mask":
        return torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    chosen = draw(st.lists(numbers, min_size=entries, max_size=entries))
    return torch.tensor(chosen) if kind == "tensor" else chosen


@st.composite
def indices(draw: st.DrawFn, x: Tensor) -> Any:
    """An index into x; not each is one that torch takes, as tensors in it need not broadcast."""
    kind = draw(st.sampled_from(("items", "items", "items", "mask", "true", "0-d")))
    if kind == "true":
        return draw(st.sampled_from((True, False, torch.tensor(True), (), Ellipsis, None)))
    if kind == "0-d":
        return torch.tensor(draw(st.integers(-len(x), len(x) - 1)))
    if kind == "mask":
        rank = draw(st.integers(1, x.dim()))
        return torch.rand(x.shape[:rank]) < draw(st.sampled_from((0.0, 0.5, 1.0)))
    entries = draw(st.integers(1, 3))
    count = draw(st.integers(1, x.dim()))
    result = [draw(items(size, entries)) for size in x.shape[:count]]
    if draw(st.booleans()):
        result.insert(draw(st.integers(0, len(result))), None)
    if draw(st.booleans()):
        result.append(Ellipsis)
    return result[0] if len(result) == 1 and draw(st.booleans()) else tuple(result)


@st.composite
def values(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """A value for `x[index]` of this shape: a number, or a tensor that broadcasts to it."""
    kind = draw(st.sampled_from(("number", "0-d", "last", "full", "leading ones")))
    if kind == "number":
        return draw(st.sampled_from((2, 1.5, 1.25))) if dtype.is_floating_point else 2
    full = {"0-d": (), "last": shape[-1:], "full": shape, "leading ones": (1, 1, *shape)}[kind]
    return (torch.rand(full) + 1.5).to(dtype)


def low_thresholds(monkeypatch: Any) -> None:
    """Lets small tensors take the ways that are meant for large ones."""
    monkeypatch.setattr(masked_set, "SMALL_ON_CPU", 0)
    monkeypatch.setattr(fast_paths, "WHERE_ELEMENTS_ON_CUDA", 0)
    monkeypatch.setattr(fast_paths, "INDEX_COPY_ELEMENTS", (0, 0))
    monkeypatch.setattr(cuda_kernels, "BYTES", 0)
    monkeypatch.setattr(masked_set, "KERNEL_BYTES_RECORDED", 0)
    for name in (
        "CAT",
        "CAT_RECORDED",
        "CAT_BLOCK",
        "KERNEL_BYTES_RECORDED",
        "INDEXED",
        "PIECES_BYTES",
        "PIECES_SHARE",
    ):
        monkeypatch.setattr(parts, name, 0)
    monkeypatch.setattr(cpu_masks, "BLOCK", 4)
    monkeypatch.setattr(cpu_masks, "GRAIN", 1)
