"""A program's memory as plain data. The program's process writes it; the command reads it.

Time is counted in operations: a storage is alive from the operation that made it (`born`) up to the last one after
which it was still there (`died`), both included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

Instruction = tuple[str, int, int, int, int]
"""An expression of the user's own code: file, line, end line, column, end column (columns in UTF-8 bytes)."""

LEAST_BYTES = 1024
"""Tensors that are smaller are not worth a line."""
MOST_FRAMES = 24
"""So many of the user's own frames are kept of a place, the innermost."""


@dataclass
class Storage:
    """One piece of memory."""

    nbytes: int
    device: str
    born: int
    died: int | None = None
    maker: int | None = None
    """The operation that made it; None where it was there when it was first seen."""
    slack: int = 0
    """Bytes of its block that CUDA's allocator cannot use for other storages."""


@dataclass(frozen=True)
class Tensor:
    """An input or output tensor of an operation: its storage, sizes and strides."""

    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: str
    itemsize: int
    requires_grad: bool = False
    leaf: bool = True
    view: bool = False
    watched: bool = False
    """Does it have hooks, or is its gradient to be kept?"""

    def fills(self, nbytes: int) -> bool:
        """Does the tensor cover its whole storage, contiguously?"""
        size = 1
        for extent, stride in sorted(zip(self.shape, self.stride, strict=True), key=lambda pair: pair[1]):
            if extent != 1 and stride != size:
                return False
            size *= extent
        return self.offset == 0 and size * self.itemsize == nbytes

    def fits(self, other: Tensor) -> bool:
        """Could one tensor take the other's memory?"""
        return (self.shape, self.stride, self.offset, self.dtype) == (
            other.shape,
            other.stride,
            other.offset,
            other.dtype,
        )


class Call(NamedTuple):
    """A call of a module. `direct`: the user's own code made the call, not a library container."""

    number: int
    module: int
    direct: bool
    place: int = -1
    """Index into the recording's places, of a direct call."""


@dataclass(frozen=True)
class Operation:
    """One operation that ran. `node` is the autograd node it made; in a backward, the node that ran it."""

    name: str
    place: int
    """Index into the recording's places."""
    calls: tuple[Call, ...]
    """The modules that were being called, innermost first."""
    node: int | None
    backward: bool
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspace: int = 0
    """Bytes that the allocator handed out during the operation only."""


@dataclass(frozen=True)
class Module:
    """A module that was called: its torch class if any, where it was made, its `inplace` flag if any."""

    kind: str
    place: int
    inplace: bool | None
    name: str
    """The attribute by which the module that called it has it."""
    known: bool = True
    """Is its forward torch's or the user's own, and does no hook run with it?"""


@dataclass(frozen=True)
class Saved:
    """A storage that an autograd node saved for its backward."""

    node: int
    kind: str
    name: str
    storage: int


@dataclass(frozen=True)
class Held:
    """A name in the user's code that referred to a storage when a backward began or memory reached a new peak."""

    place: int
    function: int
    """The line where the function begins that has the name."""
    name: str
    storage: int
    moment: int
    """The operation that came next."""


@dataclass
class Backward:
    """One backward pass: its start, its end, its nodes."""

    began: int
    ended: int
    place: int
    retain: bool
    nodes: list[int]
    """The numbers of the nodes it went through."""


@dataclass(frozen=True)
class Sum:
    """A number with a graph, added to a running total (`total += loss`), and what that graph keeps."""

    operation: int
    nodes: list[int]
    storages: list[int]


@dataclass(frozen=True)
class Clearing:
    """A call of `zero_grad`, and the gradient storages that it released."""

    place: int
    moment: int
    """The operation that came next."""
    storages: list[int]


@dataclass
class Recording:
    """A program's memory over a few steps."""

    storages: list[Storage] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    places: list[tuple[Instruction, ...]] = field(default_factory=list)
    """The user's own frames, innermost first."""
    modules: list[Module] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    clearings: list[Clearing] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    """The moments when an optimizer had stepped."""
    seconds: list[float] = field(default_factory=list)
    """The clock at each of these."""
    files: list[str] = field(default_factory=list)
    ended: bool = False
    """Did the program come to its own end (or was it stopped after enough steps)?"""
    full: bool = False
    """Were there more operations than are kept?"""
    device: str = "cpu"
    """The device whose memory this is about."""
    torch: str = ""
    """The version of torch."""
    allocator_peak: int | None = None
    """What CUDA's allocator has as its peak."""

    @property
    def last(self) -> int:
        """The number of the last operation."""
        return len(self.operations) - 1

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """For each storage, the operations that read it."""
        found: dict[int, list[int]] = {}
        for number, operation in enumerate(self.operations):
            for storage in dict.fromkeys(tensor.storage for tensor in operation.inputs):
                found.setdefault(storage, []).append(number)
        return found

    @cached_property
    def savers(self) -> dict[int, list[Saved]]:
        """For each storage, the nodes that saved it."""
        found: dict[int, list[Saved]] = {}
        for saved in self.saved:
            found.setdefault(saved.storage, []).append(saved)
        return found

    def write(self, path: Path) -> None:
        """Writes the data to a file."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


_KINDS: dict[str, Any] = {
    "modules": Module,
    "saved": Saved,
    "held": Held,
    "backwards": Backward,
    "sums": Sum,
    "clearings": Clearing,
}


def read(path: Path) -> Recording:
    """Reads the file that a process has written."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    data["storages"] = [Storage(**item) for item in data["storages"]]
    data["operations"] = [_operation(item) for item in data["operations"]]
    data["places"] = [tuple((str(i[0]), *map(int, i[1:])) for i in place) for place in data["places"]]
    for name, kind in _KINDS.items():
        data[name] = [kind(**item) for item in data[name]]
    return Recording(**data)


def _operation(data: dict[str, Any]) -> Operation:
    data["calls"] = tuple(Call(*call) for call in data["calls"])
    data["inputs"], data["outputs"] = _tensors(data["inputs"]), _tensors(data["outputs"])
    return Operation(**data)


def _tensors(data: Iterable[dict[str, Any]]) -> tuple[Tensor, ...]:
    return tuple(Tensor(**{**item, "shape": tuple(item["shape"]), "stride": tuple(item["stride"])}) for item in data)
