"""The regions that torch.compile has made, and their latest calls.

Dynamo hands each region to a backend as a graph. Each of its nodes knows the user's line. outplace keeps a copy of that
graph, and of each call the numbers and addresses that tell later which nodes and which memory belong to it. The graph
is only looked at after something has failed (`locate.replays`).
"""

from __future__ import annotations

import copy
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from outplace.runtime.record import log, native
from outplace.runtime.record.log import Write

CALLS_KEPT = 1_000

_next_number = torch._C._autograd._get_sequence_nr
_get_ident = threading.get_ident


class Input(NamedTuple):
    """What is needed to make a tensor like this input."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool


class Region:
    """One graph of Dynamo, as it was before the backend changed it."""

    def __init__(self, module: Any, inputs: Iterable[Any]) -> None:
        self.graph: torch.fx.Graph = copy.deepcopy(module.graph)
        self.inputs = [_described(value) for value in inputs]
        names = {node.target for node in self.graph.nodes if node.op == "get_attr"}
        self.attributes = {name: _attribute(module, name) for name in names}
        self.has_functions = any(str(node.target) == "autograd_function_apply" for node in self.graph.nodes)
        self.autocast = _autocast({value.device.type for value in self.inputs if isinstance(value, Input)} | {"cpu"})


def _autocast(devices: Iterable[str]) -> dict[str, torch.dtype]:
    """The devices on which autocast is on around the region, with its type."""
    return {name: torch.get_autocast_dtype(name) for name in devices if torch.is_autocast_enabled(name)}


def _described(value: Any) -> Any:
    """The description of a tensor. Other inputs are numbers: they stand for themselves."""
    if not isinstance(value, torch.Tensor):
        return value if type(value) in (int, float, bool) else _hint(value)
    size, stride = tuple(map(_hint, value.size())), tuple(map(_hint, value.stride()))
    return Input(size, stride, value.dtype, value.device, value.requires_grad, value.is_leaf)


def _hint(number: Any) -> Any:
    """The value that a symbolic number had when the region was compiled."""
    node = getattr(number, "node", None)
    return number if node is None else node.hint


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


class Call(NamedTuple):
    """One call of a region: its thread, the numbers of the nodes that it made, its writes, where its tensors lay."""

    region: Region
    thread: int
    start: int
    end: int
    inputs: bytes
    results: bytes
    writes: Sequence[Write]

    def positions(self, start: int, stop: int) -> tuple[list[int], list[int]]:
        """Which inputs and which results lay between two addresses."""
        both = (array("Q", self.inputs), array("Q", self.results))
        first, second = ([place for place, at in enumerate(addresses) if start <= at < stop] for addresses in both)
        return first, second


calls: deque[Call] = deque(maxlen=CALLS_KEPT)
"""The latest calls, oldest first."""

with_functions: list[Region] = []
"""The regions with Functions of the user inside, as long as nobody has looked at what these save."""

compiling: list[Region] = []
"""The regions that are being compiled now, innermost last."""


def around(region: Region, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled function, which also records its calls."""
    if native.compiled is not None:
        made: Callable[..., Any] = native.compiled.RegionCall(compiled, region, _begin, _end)
        return made

    def run(*args: Any) -> Any:
        begun = _begin()
        results = compiled(*args)
        _end(region, begun, args, results)
        return results

    return run


def _begin() -> tuple[int, int]:
    return _next_number(), len(log.current().writes)


def _end(region: Region, begun: tuple[int, int], args: Any, results: Any) -> None:
    start, before = begun
    writes = log.current().writes
    inside = _made_by_region(writes[before:]) if len(writes) > before else ()
    calls.append(Call(region, _get_ident(), start, _next_number(), _addresses(args), _addresses(results), inside))


def _made_by_region(writes: list[Write]) -> list[Write]:
    """The writes that belong to the line that has called the region. An operator may also run code of the user."""
    called = log.frames_to_own_code(sys._getframe(2))[-1:]
    return [write for write in writes if write.frames[-1:] == called]


def is_inside(write: Write) -> bool:
    """Did a compiled region make this write?"""
    return any(write is item for call in calls for item in call.writes)


def call_here(number: int) -> Call | None:
    """The call in this thread that made the node with this number."""
    return next((c for c in reversed(calls) if c.start <= number < c.end and c.thread == _get_ident()), None)


def calls_since(moment: int) -> list[Call]:
    """The calls in this thread that ended after this moment, oldest first."""
    return [call for call in calls if call.end >= moment and call.thread == _get_ident()]


def _addresses(values: Any) -> bytes:
    try:
        with torch._C.DisableTorchFunction():  # no mode or subclass of the user sees this
            return array("Q", [v.data_ptr() if isinstance(v, torch.Tensor) else 0 for v in values]).tobytes()
    except (RuntimeError, TypeError, NotImplementedError):  # tensors without memory
        return b""
