"""Which saved-tensor hooks packed what a node saved. Before torch 2.10 a saved tensor cannot tell.

So the hooks that are active are recorded, together with the node numbers at which they start and end.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch

TELLS = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")
"""Does a saved tensor expose its hook and its memory?"""
_next_number = torch._C._autograd._get_sequence_nr


@dataclass
class _Span:
    """A time in which hooks are active: its first node, the first node after it, and the hooks active around it."""

    start: int
    unpack: Callable[[], Any]
    around: _Span | None
    stop: int | None = None


_spans: list[_Span] = []
"""In the order of their starts, if one thread makes the graph."""
_open = threading.local()
_most = 1000
"""If there are more, those whose graph is gone are dropped."""


def patches() -> Iterator[Patch]:
    """The patches that record active hooks, where torch needs them."""
    if not TELLS:
        why = "Before torch 2.10 a saved tensor does not know its hooks: the time when they begin is noted."
        yield injected(saved_tensors_hooks.__enter__, "packing", "self", _begin, why).clearing(_spans)
        yield injected(saved_tensors_hooks.__exit__, "packed", "", _end, "The time when such hooks end is noted.")


def hook_of(node: Any, raw: Any) -> Any:
    """The hook that unpacks this saved tensor of a node; None if no hook packed it."""
    if TELLS:
        return getattr(raw, "unpack_hook", None)
    number = node._sequence_nr()
    before = bisect_right(_spans, number, key=lambda span: span.start)
    span = _spans[before - 1] if before else None
    while span is not None and span.stop is not None and span.stop <= number:
        span = span.around
    return None if span is None else span.unpack()


def _begin(of: saved_tensors_hooks) -> None:
    global _most
    if len(_spans) > _most:
        _spans[:] = [span for span in _spans if span.stop is None or span.unpack() is not None]
        _most = max(_most, 2 * len(_spans))
    _open.innermost = _Span(_next_number(), _weakly(of.unpack_hook), getattr(_open, "innermost", None))
    _spans.append(_open.innermost)


def _end() -> None:
    span: _Span | None = getattr(_open, "innermost", None)
    if span is not None:
        span.stop, _open.innermost = _next_number(), span.around


def _weakly(hook: Any) -> Callable[[], Any]:
    """A weak reference to the hook. The hook keeps what it packed alive, so only the graph may keep the hook alive."""
    try:
        return weakref.ref(hook)
    except TypeError:
        return lambda: hook
