"""How wrong a gradient is: a node is run with the values it saved, and with the present values.

A hook on the node runs the comparison when backward reaches the node, with the gradient that arrives there. Nothing
else is run twice, and a node that backward never reaches is not compared. If both results are equal, there is no bug:
many nodes save a tensor and use only its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from outplace.knowledge.nodes import describe_saved
from outplace.runtime.locate import graph, replays
from outplace.runtime.record.snapshots import Contents, bits, distinct, unobserved, uses_cuda_graphs

_NOTHING = 1e-6
"""Relative differences below this are rounding: some GPU kernels add in a different order each time."""


@dataclass
class Hit:
    """A node whose saved memory was changed. `patches` restore the old contents, oldest first."""

    node: Any
    saved_as: str
    alias: torch.Tensor
    writes: Sequence[Any]
    suspects: Sequence[Any]
    patches: Sequence[Contents] | None
    number: int = -1
    reached: bool = False
    off: float | None = None
    """The relative difference (2-norm) of the gradients that the node returns; None if it could not be computed."""
    harmless: bool = False
    certain: bool = False
    """Was the memory changed before the node saved it? Then the forward is wrong, whatever this node computes."""
    _handle: Any = field(default=None, repr=False)

    def wait(self) -> None:
        """Measures the node as soon as backward reaches it."""
        self._handle = self.node.register_prehook(self._comes)

    def done(self) -> None:
        """The backward has ended: removes the hook."""
        if self._handle is not None:
            self._handle.remove()

    def _comes(self, gradients: Any) -> None:
        self.reached = True
        try:
            with unobserved():
                self._measure(gradients)
        except Exception as trouble:  # the old values may no longer fit: then there is no figure
            self.off = None
            self.harmless = "modified by an inplace operation" in str(trouble)  # the version has changed: not silent

    def _measure(self, gradients: Any) -> None:
        self.harmless = not self.certain and self._holds_what_was_saved()
        if self.harmless:
            return
        if not _may_run(self.node):
            self.harmless = _is_generated(self.node)  # a graph on the device may have copied its inputs
            return
        now = _run(self.node, gradients)
        if self.patches is not None:
            then = _with(self.patches, lambda: _run(self.node, gradients))
            self.off = _difference(now, then)
            nothing = self.off is not None and self.off < _NOTHING
            self.harmless = all(patch.are_in_memory() for patch in self.patches) if self.certain else nothing
        elif self.alias.is_floating_point() and self.alias.layout is torch.strided:
            shaken = _with([Contents.other_than(self.alias)], lambda: _run(self.node, gradients))
            self.harmless = _difference(now, shaken) == 0.0

    def _holds_what_was_saved(self) -> bool:
        """Are the old contents in memory again? `gradcheck` changes each element, and puts it back."""
        patches = self.patches or ()
        if not patches or any(patch.variable is not None for patch in patches):
            return False
        now = distinct(self.alias)
        (then,) = _with(patches, lambda: [now])
        return bool(torch.equal(bits(now), bits(then)))


def _may_run(node: Any) -> bool:
    """Can this node be run again? A user's Function may do anything; RNN kernels use up what they saved."""
    if _is_generated(node):
        return not uses_cuda_graphs()  # it would record or replay one more
    own = isinstance(node, torch.autograd.function.BackwardCFunction)
    return not own and "rnn" not in node.name().lower()


def _is_generated(node: Any) -> bool:
    """Is its backward a graph that a compiler has made?"""
    return replays.is_compiled(node) or graph.is_inlined_function(node)


def _run(node: Any, gradients: Any) -> list[torch.Tensor]:
    result = _run_compiled(node, gradients) if _is_generated(node) else node(*gradients)
    parts = result if isinstance(result, tuple) else (result,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


def needs_contents(node: Any, alias: torch.Tensor) -> bool:
    """Does the backward of a Function in a replayed region need what this tensor contains, or its shape alone?

    It is run twice, on random numbers.
    """
    cell = graph.cell_of_saved(node)
    kept, gradients = cell.cell_contents, node._input_metadata
    devices = {part.device for part in (alias, *gradients) if part.device.type == "cuda"}
    results = []
    with unobserved(), torch.random.fork_rng(devices):
        arrived, contents = [_random(part) for part in gradients], [_random(part) for part in kept]
        others = [_random(part) if part is alias else same for part, same in zip(kept, contents, strict=True)]
        for values in (contents, others):
            torch.manual_seed(0)
            try:
                cell.cell_contents = [_copied(value) for value in values]
                result = node._forward_cls.backward(None, *map(_copied, arrived))
            finally:
                cell.cell_contents = kept
            results.append([part for part in result if isinstance(part, torch.Tensor)])
    return _difference(*results) != 0.0


def _random(like: Any) -> Any:
    """A tensor of random numbers like this one; other values stand for themselves."""
    if not hasattr(like, "dtype"):
        return like
    size = [int(length) for length in like.shape]
    if like.dtype.is_floating_point or like.dtype.is_complex:
        return torch.rand(size, dtype=like.dtype, device=like.device)
    return torch.zeros(size, dtype=like.dtype, device=like.device)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


class _Copy:
    """Stands for a compiled node. A compiled backward may overwrite what it is given, so it gets copies."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.saved_tensors = [tensor.clone() for tensor in node.saved_tensors]
        self._tensors_no_vc_check = [tensor.clone() for tensor in getattr(node, "_tensors_no_vc_check", ())]

    def maybe_clear_saved_tensors(self) -> None:
        """The node keeps its tensors."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def _run_compiled(node: Any, gradients: Any) -> Any:
    copies = [part.clone() if isinstance(part, torch.Tensor) else part for part in gradients]
    function = node._forward_cls
    arguments = [copies] if getattr(function, "boxed_grads_call", False) else copies
    return function.backward(_Copy(node), *arguments)


def _with(patches: Sequence[Contents], compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    """Computes with the old contents in memory, newest patch first, and then restores the present contents."""
    applied: list[Contents] = []
    try:
        for patch in reversed(patches):
            applied.append(patch.apply())
        return [part.clone() for part in compute()]  # a result may be a view of the memory that is restored now
    finally:
        for undo in reversed(applied):
            undo.apply()


def _difference(now: list[torch.Tensor], then: list[torch.Tensor]) -> float | None:
    if len(now) != len(then) or any(a.shape != b.shape for a, b in zip(now, then, strict=True)):
        return None
    if all(torch.equal(bits(a), bits(b)) for a, b in zip(now, then, strict=True) if a.layout is torch.strided):
        return 0.0
    apart = sum(_squares(a - b) for a, b in zip(now, then, strict=True))
    size = sum(_squares(b) for b in then)
    if apart != apart or size != size:  # NaN on one side
        return float("inf")
    return float("inf") if size == 0 else (apart / size) ** 0.5


def _squares(tensor: torch.Tensor) -> float:
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return float(dense.abs().square().sum())


def how_far(hits: list[Hit]) -> tuple[str, ...]:
    """A note on how wrong the gradient is, if that could be computed."""
    worst = max((hit for hit in hits if hit.off is not None), key=lambda hit: hit.off or 0, default=None)
    if worst is None or not worst.off:
        return ()
    label = describe_saved(worst.node.name(), worst.saved_as).partition(" keeps ")[0]
    label = "the compiled region" if _is_generated(worst.node) else label
    if worst.off == float("inf"):
        return (f"How far it is off: with the values as saved, the gradient that {label} hands on is zero or not NaN.",)
    return (f"How far it is off: the gradient that {label} hands on is {_share(worst.off)} away from the right one.",)


def _share(off: float) -> str:
    """The difference in words: `6.2%`, `35%`, `17,533 times its size`."""
    return f"{off:,.0f} times its size" if off >= 10 else f"{off:.0%}" if off >= 0.1 else f"{off * 100:.2g}%"
