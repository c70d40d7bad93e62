"""The contents of memory: copies, bitwise comparison, and fingerprints of memory that is too large to copy."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROW = 1024

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The plain tensor classes, no wrappers."""


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """For outplace's own operations: they make no graph, and no mode or subclass of the user sees them."""
    with torch._C.DisableTorchFunction(), torch.no_grad(), no_dispatch_modes():  # in this order: modes see no_grad
        yield


def no_dispatch_modes() -> Any:
    """For operations that no `__torch_dispatch__` mode may see."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without repeated elements: each expanded dimension is reduced to size one."""
    if 0 not in tensor.stride():
        return tensor
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    size = [1 if stride == 0 and length else length for length, stride in axes]
    return tensor.as_strided(size, tensor.stride(), tensor.storage_offset())


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers: NaN equals itself, and -0.0 is not 0.0."""
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    return plain.view(_INTEGERS[plain.element_size()])


def copyable(tensor: torch.Tensor) -> bool:
    """Does the tensor have plain memory whose contents can be read?"""
    plain = type(tensor) in PLAIN and tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_quantized
    return plain and not (tensor.is_cuda and uses_cuda_graphs())


def uses_cuda_graphs() -> bool:
    """Is a CUDA graph recorded now, or has Inductor recorded any? A copy would become a part of it."""
    if not torch.cuda.is_initialized():
        return False
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is None:
        return bool(torch.cuda.is_current_stream_capturing())
    try:
        containers = trees.get_obj(trees.local, "tree_manager_containers")
    except (AttributeError, RuntimeError):  # a thread that Inductor does not know
        return True
    return any(container.tree_manager is not None for container in containers.values())


def same_piece(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Do both tensors show the same elements of the same memory, at least one of them?"""
    try:
        with torch._C.DisableTorchFunction():  # not `is_set_to`, which dispatch modes see
            strided = one.layout is torch.strided and other.layout is torch.strided and one.dtype == other.dtype
            alike = strided and one.shape == other.shape and one.stride() == other.stride()
            return alike and one.numel() > 0 and one.data_ptr() == other.data_ptr() != 0
    except RuntimeError:  # nested tensors have no shape, those of torch.func no address
        return False


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first address that a tensor covers, and the one after its last."""
    if not tensor.numel():
        return 0, 0
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    """A few integers that depend on the contents and their order. Computing them does not wait for a GPU."""
    flat = bits(tensor).reshape(-1)
    whole = flat.numel() // _ROW * _ROW
    table, rest = flat[:whole].view(-1, _ROW), flat[whole:]
    rows, columns = table.sum(1), table.sum(0)
    return torch.stack([_weighted(part) for part in (rows, columns, rest.long())])


def _weighted(values: torch.Tensor) -> torch.Tensor:
    """A sum that depends on the order. Integers wrap around, so rounding loses nothing."""
    places = torch.arange(1, values.numel() + 1, device=values.device)
    return (values * (places * 0x9E3779B97F4A7C1 + 0x1234567)).sum()


@dataclass(frozen=True)
class Contents:
    """Contents to put into a region of memory. With `variable`, the tensor gets other memory instead."""

    address: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    contents: torch.Tensor
    storage: Any = None
    variable: torch.Tensor | None = None

    @staticmethod
    def of(tensor: torch.Tensor, contents: torch.Tensor | None = None) -> Contents:
        """The present contents of this tensor's memory, or the `contents` given."""
        region = distinct(tensor.detach())
        kept = region.clone() if contents is None else contents
        return Contents(region.data_ptr(), tuple(region.size()), tuple(region.stride()), kept)

    @staticmethod
    def other_than(tensor: torch.Tensor) -> Contents:
        """Contents that differ from the present ones."""
        region = distinct(tensor.detach())
        return Contents.of(region, torch.nan_to_num(1.5 - region, 1.0, 1.0, 1.0)).into(tensor)

    @staticmethod
    def other_memory(before: torch.Tensor, variable: torch.Tensor) -> Contents:
        """The memory that a tensor had before `x.data = y`."""
        return Contents(0, (), (), before, variable=variable)

    def into(self, tensor: torch.Tensor) -> Contents:
        """The same contents, for the memory of this tensor."""
        if self.variable is not None:
            return Contents.other_memory(self.contents, tensor)
        return Contents(self.address, self.size, self.stride, self.contents, tensor.untyped_storage())

    def apply(self) -> Contents:
        """Writes the contents into memory without changing a version. Returns the contents that undo it."""
        if self.variable is not None:
            before = _DATA.__get__(self.variable)
            _DATA.__set__(self.variable, self.contents)
            return Contents.other_memory(before, self.variable)
        region = self._region()
        undo = Contents(self.address, self.size, self.stride, region.clone(), self.storage)
        region.copy_(self.contents)
        return undo

    def are_in_memory(self) -> bool:
        """Does the memory hold these contents now?"""
        return self.variable is None and torch.equal(bits(self._region()), bits(self.contents))

    def _region(self) -> torch.Tensor:
        """A tensor over this memory, with its own version counter."""
        dtype, width = self.contents.dtype, self.contents.element_size()
        span = sum((length - 1) * stride for length, stride in zip(self.size, self.stride, strict=True)) + 1
        if self.contents.device.type == "cpu":  # an array may reach beyond the storage of a tensor over it
            memory = (ctypes.c_char * (span * width)).from_address(self.address)
            return torch.frombuffer(memory, dtype=dtype).as_strided(self.size, self.stride)
        offset = (self.address - self.storage.data_ptr()) // width
        if offset < 0 or (offset + span) * width > self.storage.nbytes():
            raise ValueError("not inside this storage")
        region = torch.empty(0, dtype=dtype, device=self.contents.device)
        return region.set_(self.storage, offset, self.size, self.stride)


_DATA: Any = torch._C.TensorBase.data


def sample(tensor: torch.Tensor, most: int = 1 << 10) -> torch.Tensor:
    """Some of the elements, all over the tensor, as a copy."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // most)].clone()


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Are two samples equal, but for rounding?"""
    wide = torch.complex128 if one.is_complex() or other.is_complex() else torch.float64
    return bool(torch.allclose(one.to(wide), other.to(wide), rtol=1e-4, atol=1e-7, equal_nan=True))
