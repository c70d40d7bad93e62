"""The evidence of a run for a proof: the value of each backward's root, the gradients of its leaves, its files.

A proof compares runs of a program before and after a repair. Each run has a process of its own, started with `EVIDENCE`
set. `OVERLAY` replaces the text of files, which stay unchanged on disk. `REFERENCE` copies everything that is saved for
backward, so that the unrepaired program computes the correct gradient.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import json
import linecache
import os
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from outplace import settings
from outplace.repair.drive.processes import end_with_parent, show_lines_at_once
from outplace.runtime import instrument
from outplace.runtime.patches.table import Patch, Section, after_torch, registered, replaced
from outplace.runtime.program import attachment, seeds
from outplace.runtime.record.user_files import fields_of, own_files

_CONTAINERS = (tuple, list, dict, deque)
_MOST_BACKWARDS = 400
"""At most this many backwards are recorded. A proof needs the failing one and some around it."""


def start() -> None:
    """Starts what the environment variables ask for, and removes them, so child processes do not see them."""
    end_with_parent()
    show_lines_at_once()
    evidence, overlay, reference = settings.EVIDENCE.take(), settings.OVERLAY.take(), settings.REFERENCE.take()
    if overlay:
        with open(overlay, encoding="utf-8") as file:
            lay_over(json.load(file))
    seeds.start(settings.SEED.take())
    if evidence:
        notes = _Notes(evidence)
        attachment.more.append(_section(notes, reference))
        atexit.register(notes.files)


def _section(notes: _Notes, reference: bool) -> Section:
    return Section("a run for a proof (outplace fix, run --fix)", lambda: notes.patches(reference), after_torch)


def example() -> Section:
    """The section of such a run, for listing."""
    return _section(_Notes(os.devnull), reference=True)


def _keep_copies() -> Any:
    import torch

    hooks = torch.autograd.graph.saved_tensors_hooks(_copy, lambda kept: kept)
    hooks.__enter__()
    return hooks.__exit__


def _copy(tensor: Any) -> Any:
    """A copy with the same strides, where that is possible: a compiled backward demands them."""
    import torch

    from outplace.runtime.record import log, snapshots

    copy = tensor.detach().clone()
    if not snapshots.copyable(tensor) or copy.stride() == tensor.stride():
        return copy
    region = snapshots.distinct(tensor.detach())
    same = torch.empty_strided(region.size(), region.stride(), dtype=region.dtype, device=region.device)
    try:
        with log.without_writes():
            same.copy_(region)
    except RuntimeError:  # parts of it overlap
        return copy
    return same.as_strided(tensor.size(), tensor.stride())


def lay_over(texts: dict[str, str]) -> None:
    """Compiles these texts instead of their files."""
    instrument.lay_over(texts)
    for path, text in texts.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class _Step(NamedTuple):
    """An optimizer's last step. It keeps its frames alive, so that none is mistaken for a later one."""

    optimizer: Any

    frames: list[tuple[FrameType, int]]
    clock: int
    weights: set[int]


class _Notes:
    """A file of JSON lines. Each is written immediately, because the process may end at any moment."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0
        self._pid = os.getpid()
        self._steps: dict[int, _Step] = {}
        """By the optimizer's number, in the order of their first steps."""
        self._stepped = 0

    def _write(self, **fact: Any) -> None:
        if os.getpid() == self._pid:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(fact) + "\n")

    def files(self) -> None:
        """The program's own files."""
        paths = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        loaded = {path: paths.get(name.partition(".")[0]) for name, path in paths.items() if isinstance(path, str)}
        mine = [path for path, package in loaded.items() if own_files[path] and (not package or own_files[package])]
        own = sorted({os.path.realpath(path) for path in mine if path.endswith(".py")})
        self._write(files=own)

    def patches(self, reference: bool) -> Iterator[Patch]:
        """The patches of torch."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        from outplace.runtime.patches import backward

        if reference:
            why = "A copy of everything that is saved for backward gives the gradient that was meant."
            yield registered("torch.autograd.graph.saved_tensors_hooks", _keep_copies, why)
        why = "The value of each backward's root is noted."
        yield replaced(builtins, backward.STARTED, lambda _: self._started, why, "name in builtins")
        where, why = "torch.optim.optimizer._global_optimizer_pre_hooks", "The gradients that a step takes are noted."
        yield registered(where, lambda: register_optimizer_step_pre_hook(self._stepping), why)
        for name in ("backward", "grad"):
            yield replaced(torch.autograd, name, self._watched, "The gradients of each backward's leaves are noted.")

    def _started(self) -> None:
        """A backward pass begins (called from inside torch's function)."""
        from outplace.runtime.patches import backward

        frame = sys._getframe(1)
        roots = frame.f_locals.get("t_outputs", ())
        if not _is_compiler_at_work(roots):
            if self._count < _MOST_BACKWARDS:
                self._write(root=[_digest(root) for root in roots], draws=_draws())
            self._count += 1
        backward.begin(frame)

    def _stepping(self, optimizer: Any, *_: Any) -> None:
        import torch

        found = [number for number, step in self._steps.items() if step.optimizer is optimizer]
        number = found[0] if found else len(self._steps)
        clock = torch._C._autograd._get_sequence_nr()
        self._steps[number] = _Step(optimizer, _frames(sys._getframe(1)), clock, _weights(optimizer))
        if self._stepped < _MOST_BACKWARDS:
            weights = enumerate(weight for group in optimizer.param_groups for weight in group["params"])
            taken = [(place, weight) for place, weight in weights if weight.grad is not None]
            self._write(step=number, taken=[[_digest(one), _digest(one.grad), place] for place, one in taken])
        self._stepped += 1

    def _moment(self, frame: FrameType, roots: Any, waiting: set[int]) -> dict[str, Any] | None:
        """The failed backward and the last step before it that changed its weights.

        Both are described in the innermost function that ran both: their lines, and what the function holds.
        `waiting`: the weights that it reaches, and that had a gradient before it.
        """
        ends = _ends(roots)
        conflicting = [step for step in self._steps.values() if _is_stale(ends, [step])]
        steps = sorted(conflicting or self._steps.values(), key=lambda step: step.clock)
        step = steps[-1] if steps else None
        meeting = _innermost_shared(step.frames, _frames(frame)) if step is not None else None
        if step is None or meeting is None:
            return None
        (function, step_line), (_, backward_line) = meeting
        weights = set().union(*(other.weights for other in conflicting)) if conflicting else step.weights
        step_frame, line_in_step_frame = step.frames[-1]
        return {
            "file": os.path.realpath(function.f_code.co_filename),
            "step_line": step_line,
            "backward_line": backward_line,
            **_graph_holders(function, step, conflicting, weights),
            "optimizers": {path: bool(_weights(optimizer) & weights) for path, optimizer in _optimizers(function)},
            "stepped_at": [os.path.realpath(step_frame.f_code.co_filename), line_in_step_frame],
            "loss_is_older": _are_all_older(roots, step),
            "adds_up": bool(waiting & _reached_beside(roots, weights)),
        }

    def _watched(self, function: Any) -> Any:
        import functools

        import torch

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            number = self._count
            roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            if _is_compiler_at_work([roots] if isinstance(roots, torch.Tensor) else roots):
                return function(*args, **kwargs)
            reached = leaves(roots) if number < _MOST_BACKWARDS else []
            waiting = {id(leaf) for leaf in reached if leaf.grad is not None and bool(leaf.grad.any())}
            try:
                result = function(*args, **kwargs)
            except RuntimeError:
                roots = [roots] if isinstance(roots, torch.Tensor) else roots
                self._write(moment=self._moment(sys._getframe(), roots, waiting))
                raise
            if number < _MOST_BACKWARDS:
                gradients = [
                    {"leaf": _digest(leaf, True), "grad": None if leaf.grad is None else _digest(leaf.grad)}
                    for leaf in reached
                ]
                returned = [_digest(item) for item in result or () if isinstance(item, torch.Tensor)]
                self._write(backward=number, gradients=gradients, returned=returned)
            return result

        return watched


def _is_compiler_at_work(roots: Any) -> bool:
    """Is this backward one that a compiler traces? Its tensors hold no values, and each operation on them is traced."""
    import torch

    fake: Any = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is None:
        return False
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return (
        torch._guards.TracingContext.try_get() is not None
        or any(isinstance(mode, fake.FakeTensorMode) for mode in modes)
        or any(isinstance(root, fake.FakeTensor) for root in roots or ())
    )


def _frames(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    """The user's frames with their current lines, outermost first."""
    found: list[tuple[FrameType, int]] = []
    while frame is not None:
        if own_files[frame.f_code.co_filename]:
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def _innermost_shared(
    frames: list[tuple[FrameType, int]], others: list[tuple[FrameType, int]]
) -> tuple[tuple[FrameType, int], tuple[FrameType, int]] | None:
    """The innermost frame that two stacks share, as each of them has it."""
    shared = [pair for pair in zip(frames, others, strict=False) if pair[0][0] is pair[1][0]]
    return shared[-1] if shared else None


def _graph_holders(function: FrameType, step: _Step, conflicting: Sequence[_Step], weights: set[int]) -> dict[str, Any]:
    """What holds a graph in a function: its type, whether a step made it stale, whether it only trains `weights`."""
    held = _held(function)
    tensors = {path: _tensors_in(value) for path, value in held.items()}
    return {
        "held": {path: _shape(value) for path, value in held.items()},
        "stale": [
            path for path, value in tensors.items() if _is_older(value, step) and _is_stale(_ends(value), conflicting)
        ],
        "for_the_step": [path for path, value in tensors.items() if _only_reaches(value, weights)],
    }


def _held(frame: FrameType) -> dict[str, Any]:
    """The names of a function, and the attributes of its objects, that hold a graph."""
    found: dict[str, Any] = {}
    for name, value in list(frame.f_locals.items()):
        if _has_graph(value):
            found[name] = value
            continue
        for path, part in [("", value), *_modules(value)] if not isinstance(value, type) else ():
            fields = fields_of(part)
            buffers = fields.get("_buffers") if path or _is_module(part) else None
            for attribute, inner in [*fields.items(), *(buffers or {}).items()]:
                if inner is not buffers and _has_graph(inner):
                    found[".".join(filter(None, (name, path, attribute)))] = inner
    return found


def _optimizers(frame: FrameType) -> list[tuple[str, Any]]:
    """The optimizers that a function can name: its own names, those of its file, and attributes of its objects."""
    import torch

    outer = [(name, frame.f_globals[name]) for name in frame.f_code.co_names if name in frame.f_globals]
    named = [*{**dict(outer), **frame.f_locals}.items()]
    inside = [(f"{name}.{key}", one) for name, value in named for key, one in fields_of(value).items()]
    return [(path, value) for path, value in [*named, *inside] if isinstance(value, torch.optim.Optimizer)]


def _weights(optimizer: Any) -> set[int]:
    return {id(weight) for group in optimizer.param_groups for weight in group["params"]}


def _draws() -> int:
    """A number that shows how many random numbers have been drawn."""
    import torch

    state = torch.get_rng_state()  # of bytes; read without numpy, which may be missing
    return zlib.crc32(ctypes.string_at(state.data_ptr(), state.numel()))


def _modules(value: Any) -> list[tuple[str, Any]]:
    return [(path, part) for path, part in value.named_modules() if path] if _is_module(value) else []


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def _has_graph(value: Any) -> bool:
    """Is it a computed tensor, or a container with one?"""
    return any(tensor.grad_fn is not None for tensor in _tensors_in(value))


def _tensors_in(value: Any, depth: int = 2) -> list[Any]:
    """The tensor itself, or those in a plain container: a tuple of states, a list of such tuples, a dict."""
    import torch

    if type(value) is torch.Tensor:
        return [value]
    if type(value) not in _CONTAINERS or depth == 0:
        return []
    return [tensor for part in _parts(value) for tensor in _tensors_in(part, depth - 1)]


def _parts(value: Any) -> list[Any]:
    return list(value.values() if isinstance(value, dict) else value)


def _shape(value: Any) -> str:
    """`tensor`, `tuple`, `list`, `dict` or `deque` of tensors; `list of tuple`, `dict with others`."""
    import torch

    name = type(value).__name__.lower()
    if type(value) not in _CONTAINERS:
        return name
    kinds = {type(part) for part in _parts(value)}
    if kinds == {torch.Tensor}:
        return name
    inner = {_shape(part) for part in _parts(value)} if len(kinds) == 1 else set()
    return f"{name} of {inner.pop()}" if len(inner) == 1 else f"{name} with others"


def _only_reaches(value: Any, weights: set[int]) -> bool:
    """Would a backward from this value reach these weights and no others?"""
    reached = leaves(value)
    return bool(reached) and all(id(leaf) in weights for leaf in reached)


def _digest(tensor: Any, shape: bool = False) -> list[Any]:
    """A few numbers that distinguish a tensor from others."""
    import torch

    with torch.no_grad():
        plain = tensor.detach()
        plain = plain.to_dense() if plain.layout != torch.strided else plain
        values = plain.to(torch.complex128 if plain.is_complex() else torch.float64)
        values = torch.view_as_real(values) if values.is_complex() else values
        flat = values.reshape(-1)
        weights = torch.cos(torch.arange(flat.numel(), dtype=torch.float64, device=flat.device))
        numbers = [flat.sum(), flat.abs().sum(), (flat * weights).sum()]
        found: list[Any] = [float(number) for number in numbers]
    return [*found, list(tensor.shape)] if shape else found


def leaves(roots: Any) -> list[Any]:
    """The leaves that a backward from these roots would reach."""
    return list({id(leaf): leaf for _, leaf in _ends(roots)}.values())


def _ends(roots: Any) -> list[tuple[int, Any]]:
    """The leaves that a backward from these roots would reach, each with the number of a node above it."""
    import torch

    waiting = [(0, root.grad_fn) for root in ([roots] if isinstance(roots, torch.Tensor) else roots or ())]
    seen: set[Any] = set()
    found: list[tuple[int, Any]] = []
    while waiting:
        number, node = waiting.pop()
        if node is None:
            continue
        if hasattr(node, "variable"):
            found.append((number, node.variable))
        elif node not in seen:
            seen.add(node)
            waiting += [(node._sequence_nr(), following) for following, _ in node.next_functions]
    return found


def _reached_beside(roots: Any, weights: set[int]) -> set[int]:
    """The leaves that a backward reaches, but not through an operation on one of these weights."""
    waiting, seen, found = [root.grad_fn for root in roots or ()], set[Any](), set[int]()
    while waiting:
        node = waiting.pop()
        inputs = [(following, _leaf(following)) for following, _ in node.next_functions] if node is not None else []
        if node in seen or any(leaf in weights for _, leaf in inputs):
            continue
        seen.add(node)
        found.update(leaf for _, leaf in inputs if leaf is not None)
        waiting += [following for following, leaf in inputs if leaf is None]
    return found


def _leaf(node: Any) -> int | None:
    """The leaf that this operand is, or is a view of."""
    while node is not None and not hasattr(node, "variable"):
        node = node.next_functions[0][0] if len(node.next_functions) == 1 else None
    return None if node is None else id(node.variable)


def _are_all_older(roots: Any, step: _Step) -> bool:
    """Were all roots computed before the step?"""
    numbers = [root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None]
    return bool(numbers) and max(numbers) < step.clock


def _is_older(value: Any, step: _Step) -> bool:
    """Was one of these tensors computed before the step?"""
    nodes = [item.grad_fn for item in value]
    return any(node is not None and node._sequence_nr() < step.clock for node in nodes)


def _is_stale(ends: list[tuple[int, Any]], steps: Sequence[_Step]) -> bool:
    """Does it lead to weights that were stepped after they were used?"""
    return any(number < step.clock and id(leaf) in step.weights for number, leaf in ends for step in steps)
