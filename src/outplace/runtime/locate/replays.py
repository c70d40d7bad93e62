"""Runs a compiled region again, node by node and without memory, to see which of its lines saved and wrote what.

After a failure a compiled region is one opaque node, or a row of nodes that generated code has made. Dynamo's graph of
the region is run again on fake tensors, which have shapes, versions and history but no contents. Nothing is computed,
no code of the user runs, and no random number is drawn. Each node of the graph knows its line. So the record gets
marks and writes, as it does from code that is not compiled, and the usual questions can be asked.
"""

from __future__ import annotations

import contextlib
import functools
import re
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import torch

from outplace.model import Site
from outplace.runtime.instrument import STATEMENTS
from outplace.runtime.locate import graph, sites
from outplace.runtime.record import log, regions
from outplace.runtime.record.log import WHOLE, Instruction, Place, Write
from outplace.runtime.record.regions import Call, Input, Region
from outplace.runtime.record.snapshots import no_dispatch_modes
from outplace.runtime.record.storages import storage_of, unwrapped
from outplace.runtime.record.user_files import own_files

_next_number = torch._C._autograd._get_sequence_nr
_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
_NO_COLUMNS = b"\xef\x00"
"""Eight instructions on the first line, in Python's table of positions."""


class Saved(NamedTuple):
    """A node of a replayed region that saves a tensor, and the name under which it does."""

    node: Any
    saved_as: str


class Replay(torch.fx.Interpreter):  # type: ignore[misc]
    """The region, run again. `nodes` are its nodes by their numbers."""

    def __init__(self, region: Region) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode  # a program that compiles has imported it

        super().__init__(torch.nn.Module(), garbage_collect_values=False, graph=region.graph)
        self._attributes = region.attributes
        self.writes: list[Write] = []
        self._starts: list[int] = []
        self._frames: list[tuple[Instruction, ...]] = []
        result: Any = ()
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with contextlib.ExitStack() as around:
            for context in (log.without_writes(), no_dispatch_modes(), mode, torch.enable_grad()):
                around.enter_context(context)
            for device, dtype in region.autocast.items():
                around.enter_context(torch.autocast(device, dtype))
            self.inputs = [_like(value) for value in region.inputs]
            self.start = _next_number()
            try:
                result = self.run(*self.inputs, enable_io_processing=False)
            except Exception:  # what the graph does before the error is known
                self._leave_contexts()
        self.end = _next_number()
        self.results: list[Any] = list(result) if isinstance(result, list | tuple) else [result]
        self.nodes: dict[int, Any] = {}
        for node in graph.walk(self.roots()):
            number = graph.number_of(node)
            if number is not None and number >= self.start:
                self.nodes[number] = node

    def _leave_contexts(self) -> None:
        """Runs what is left of the graph to leave `vmap`, autocast and the like: they would stay on."""
        for node in self.graph.nodes:
            if node not in self.env and _LEAVES.search(getattr(node.target, "__name__", "")):
                with contextlib.suppress(Exception):  # it had not been entered
                    self.env[node] = super().run_node(node)

    def roots(self) -> list[Any]:
        """The last nodes of the region's values."""
        values = [value for value in (*self.env.values(), *self.results) if isinstance(value, torch.Tensor)]
        tensors = map(unwrapped, values)
        return [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]

    def frames_of(self, number: int) -> tuple[Instruction, ...]:
        """The frames of the node with this number, innermost first. The last one is the user's, if one of them is."""
        return self._frames[bisect_right(self._starts, number) - 1] if number >= self.start else ()

    def fetch_attr(self, target: str) -> Any:
        """The value of a constant or of a part of the graph."""
        return self._attributes[target]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Runs a block that is checkpointed as if it were not, so that its lines and what they save are known."""
        if getattr(target, "_name", "") in _CHECKPOINTS and isinstance(args[0], torch.fx.GraphModule):
            return _Block(args[0], self.noting).run(*args[1:])
        return super().call_function(target, args, kwargs)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs one node of the graph, and notes its line and what it wrote."""
        return self.noting(n, self.env, super().run_node)

    def noting(self, n: torch.fx.Node, values: dict[Any, Any], run: Callable[[torch.fx.Node], Any]) -> Any:
        """Runs one node of the region or of a block inside it."""
        frames, moment = _frames(n), _next_number()
        self._starts.append(moment)
        self._frames.append(frames)
        arguments = [value for item in n.all_input_nodes if isinstance(value := values.get(item), torch.Tensor)]
        before = [value._version for value in arguments]
        result = run(n)
        written = {storage_of(value): (value, version) for value, version in zip(arguments, before, strict=True)}
        for storage, (value, version) in written.items():
            if value._version != version and frames and storage is not None:
                geometry = (int(value.storage_offset()), tuple(value.size()), tuple(value.stride()))
                region = log.Region(WHOLE, *geometry) if value._is_view() else None
                self.writes.append(Write(storage, version, moment, _operation(n), frames, region, True))
        return result

    def saved(self, tensor: torch.Tensor) -> Iterator[Saved]:
        """The nodes that save this tensor's memory, the latest first."""
        storage = storage_of(tensor)
        for _, node in sorted(self.nodes.items(), reverse=True):
            for saved_as, alias in graph.held(node):
                if storage_of(alias) == storage:
                    yield Saved(node, saved_as)


class _Block(torch.fx.Interpreter):  # type: ignore[misc]
    """A block inside a region."""

    def __init__(self, module: torch.fx.GraphModule, noting: Callable[..., Any]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._noting = noting

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs one node as the region does."""
        return self._noting(n, self.env, super().run_node)


_LEAVES = re.compile("_exit_|_decrement_|_enabled?$")
"""The functions that Dynamo calls at the end of a context."""

_CHECKPOINTS = ("tag_activation_checkpoint", "wrap_activation_checkpoint")


def _like(value: Any) -> Any:
    if not isinstance(value, Input):
        return value
    result = torch.empty_strided(value.size, value.stride, dtype=value.dtype, device=value.device)
    result.requires_grad_(value.requires_grad)
    return result if value.is_leaf else result.clone()


def _frames(node: torch.fx.Node) -> tuple[Instruction, ...]:
    """The frames of a node of Dynamo's graph, from the innermost one out to the user's, if one of them is.

    Dynamo keeps no lines of torch's own layers, but their classes.
    """
    frames: list[Instruction] = []
    for line in reversed(_LINE.findall(node.stack_trace or "")):
        frames.append(_instruction(*line))
        if own_files[line[0]]:
            break
    layers = [kind for _, kind in (node.meta.get("nn_module_stack") or {}).values() if hasattr(kind, "forward")]
    return tuple(frames) or tuple((kind.forward.__code__, 0) for kind in layers[-1:])


def _is_own(frames: tuple[Instruction, ...]) -> bool:
    """Do these frames end at a line of the user?"""
    return bool(frames) and own_files[frames[-1][0].co_filename]


@functools.lru_cache(maxsize=10_000)
def _instruction(filename: str, line: str, function: str) -> Instruction:
    """An instruction that stands for a line of which no more is known."""
    code: CodeType = compile("0", filename, "eval").replace(co_name=function, co_firstlineno=int(line))
    if hasattr(code, "co_positions"):
        table = _NO_COLUMNS * (len(code.co_code) // 16 + 1)
        more: Any = {"co_qualname": function, "co_linetable": table}
        code = code.replace(**more)
    return code, 0


def _operation(node: torch.fx.Node) -> str:
    """What the record would call this operation: `add_`, `__iadd__`, `__setitem__`."""
    if isinstance(node.target, str):
        return node.target
    name = getattr(node.target, "__name__", str(node.target))
    return f"__{name}__" if getattr(node.target, "__module__", "") == "_operator" else name


_known: weakref.WeakKeyDictionary[Region, Replay] = weakref.WeakKeyDictionary()


def replay(region: Region) -> Replay:
    """The region, run again once."""
    if region not in _known:
        _known[region] = Replay(region)
    return _known[region]


# -- questions ---------------------------------------------------------------------------------------------------------


def place_of(node: Any) -> Place:
    """The line inside a compiled region that made this node; None if none did, or if that cannot be told."""
    frames = _frames_of(node)
    return frames[-1] if _is_own(frames) else None


def chain_of(node: Any) -> tuple[Site, ...]:
    """The lines of a library that made this node, outermost first, if no line of the user is in its region."""
    frames = _frames_of(node)
    return () if _is_own(frames) else tuple(sites.at_instruction(frame).site for frame in reversed(frames))


def replay_with(node: Any) -> Replay | None:
    """The replay that made this node, which is none of the program's."""
    number = graph.number_of(node) if _known else None
    return next((again for again in _known.values() if number is not None and again.nodes.get(number) is node), None)


def _frames_of(node: Any) -> tuple[Instruction, ...]:
    number = graph.number_of(node) if regions.calls or _known else None
    if number is None:
        return ()
    again = replay_with(node)
    if again is not None:
        return again.frames_of(number)
    call = regions.call_here(number)
    if call is None or is_compiled(node):
        return ()
    again = replay(call.region)
    twin = again.nodes.get(again.start + number - call.start)
    same = twin is not None and twin.name() == node.name() and again.end - again.start == call.end - call.start
    return again.frames_of(again.start + number - call.start) if same else ()


def is_compiled(node: Any) -> bool:
    """Does this node stand for a whole region that AOTAutograd has compiled?"""
    return hasattr(getattr(node, "_forward_cls", None), "_aot_id")


def savers_in_region(node: Any, alias: torch.Tensor | None) -> list[Saved]:
    """The nodes of a compiled region that save this memory, and whose lines are known."""
    number = graph.number_of(node)
    call = None if number is None or not is_compiled(node) else regions.call_here(number)
    if call is None or alias is None:
        return []
    again = replay(call.region)
    found = {saved: saved for tensor in _tensors_in(again, call, alias) for saved in again.saved(tensor)}
    return [saved for saved in found if again.frames_of(graph.number_of(saved.node) or 0)]


def writes_in_region(call: Call, alias: Any) -> list[Write]:
    """The writes of a region to the memory of this tensor, which came in or out of it."""
    again = replay(call.region)
    storages = {storage_of(tensor) for tensor in _tensors_in(again, call, alias)}
    called = called_at(call)
    found = [write._replace(region=None) for write in again.writes if write.storage in storages]
    return [known for write in found if (known := with_call(write, called)).frames]


def with_call(write: Write, called: tuple[Instruction, ...]) -> Write:
    """The write with the line that called its region, if only a library's lines are inside. No frames: not known."""
    inside = write.frames
    return write if _is_own(inside) else write._replace(frames=(*inside, *called) if called else ())


def called_at(call: Call) -> tuple[Instruction, ...]:
    """The user's line that called a region, by the marks."""
    place = log.current().place_of(call.start)
    if isinstance(place, int):
        marked = STATEMENTS[place]
        place = _instruction(marked.file, str(marked.line), marked.function)
    return () if place is None else (place,)


def same_write(call: Call, write: Write) -> list[Write]:
    """The write of a region that the record has seen: that operation, after as many nodes."""
    again = replay(call.region)
    moment = again.start + write.moment - call.start
    found = [item for item in again.writes if item.moment == moment and item.operation == write.operation]
    return [write._replace(frames=with_call(found[0], write.frames[-1:]).frames)] if len(found) == 1 else []


def _tensors_in(again: Replay, call: Call, alias: torch.Tensor) -> list[torch.Tensor]:
    """The tensors of a replay that stand for the inputs and results of a call in this memory."""
    memory = alias.untyped_storage()
    inputs, results = call.positions(memory.data_ptr(), memory.data_ptr() + memory.nbytes())
    both = [*(again.inputs[k] for k in inputs), *(again.results[k] for k in results if k < len(again.results))]
    return [tensor for tensor in both if isinstance(tensor, torch.Tensor)]
