"""Tags: the exact but slower way to know where nodes were made. Each node carries its own site.

Tags are used where marks cannot be: in code that was loaded before outplace was attached (`outplace.watch()` in a
running program, the main script of a child process), and in graphs that several threads build, if torch does not tell
which thread made a node (`node_threads`). Anomaly mode calls `torch.fx.traceback.format_stack` for each node and stores
the result. outplace replaces that function by one that only looks up the user's line. This takes about 5 microseconds a
node instead of 100.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch
import torch.fx.traceback as fx_traceback

from outplace.runtime.patches import loaded_code
from outplace.runtime.patches.table import Patch, Undo, registered, replaced
from outplace.runtime.record import log, native
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.user_files import HANDING_ON, is_of_python, own_files

_original = fx_traceback.format_stack
_cache: dict[tuple[int, int], Tag] = {}


class Tag(list[str]):
    """The tag of a node: the lines that anomaly mode would print, and the instruction."""

    place: Instruction | None = None


_NOWHERE = Tag(["  <no Python frame>\n"])


def _tag() -> list[str]:
    if fx_traceback.should_preserve_node_meta:  # torch.compile is tracing and needs its own strings
        return list(_original())
    try:
        frame: FrameType | None = sys._getframe(1)
    except ValueError:  # a thread of C++
        return _NOWHERE
    while frame is not None and not (own_files[frame.f_code.co_filename] and frame.f_code.co_name not in HANDING_ON):
        frame = frame.f_back
    if frame is None:
        return _NOWHERE
    key = (id(frame.f_code), frame.f_lasti)
    tag = _cache.get(key)
    if tag is None:
        code = frame.f_code
        tag = _cache[key] = Tag([f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n'])
        tag.place = (code, frame.f_lasti)  # keeps the code object alive, so that its id is not reused
    return tag


def enabled() -> bool:
    """Are nodes being tagged?"""
    return fx_traceback.format_stack is _tag


_QUIET = ("ignore", re.compile("Error detected in ", re.IGNORECASE), UserWarning, None, 0)
"""The warning filter against anomaly mode's own report of a failed backward. The diagnosis replaces that report."""

_filters: Any = warnings.filters
_enabled_by_us = False


def patches() -> Iterator[Patch]:
    """The patches that tag each node with its site, in all threads."""
    why = "In anomaly mode torch asks it for the stack of each node; ours only looks up the user's line."
    yield replaced(fx_traceback, "format_stack", lambda _: _tag, why).clearing(_cache)
    why = "The diagnosis takes the place of anomaly mode's own report."
    yield registered("warnings.filters", _silence, why)
    why = "Only in anomaly mode a node keeps where it was made."
    yield registered("torch.autograd.set_detect_anomaly", _enable, why, "The mode is set as it was.")


def _silence() -> Undo:
    if torch.is_anomaly_enabled():
        return bool
    _filters.insert(0, _QUIET)
    _filters_changed()

    def undo() -> None:
        if _QUIET in _filters:
            _filters.remove(_QUIET)
            _filters_changed()

    return undo


def _enable() -> Undo:
    global _enabled_by_us
    if torch.is_anomaly_enabled():
        return bool
    check_nan = torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    _enabled_by_us = True
    if loaded_code.unmarked:
        _switch(loaded_code.unmarked, check_nan)

    def undo() -> None:
        global _enabled_by_us
        _enabled_by_us = False
        always()
        torch.autograd.set_detect_anomaly(False, check_nan)

    return undo


def _switch(unmarked: tuple[CodeType, ...], check_nan: bool) -> None:
    """From now on, nodes are tagged only while one of these frames without marks runs itself."""
    compiled: Any = native.compiled

    def marks_begin() -> None:
        if not (torch.is_anomaly_check_nan_enabled() or loaded_code.may_go_on(sys._getframe(1))):
            torch.set_anomaly_enabled(False, check_nan)

    def marks_end() -> None:
        if not torch.is_anomaly_enabled():  # else it is the program's own, or a handler has kept it on
            torch.set_anomaly_enabled(True, False)

    def waits(frame: FrameType) -> bool:
        waiting = is_of_python(frame.f_code.co_filename)
        if not waiting:
            marks_end()
        elif torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled():
            log.know_no_place(thread)  # of what it makes when it has waited
            torch.set_anomaly_enabled(False, check_nan)
        return waiting

    thread = threading.get_ident()
    frames = iter(log.frames_to_own_code(sys._getframe()))
    inside = any(code is other for code, _ in frames for other in unmarked)
    compiled.switch_tags(unmarked, marks_begin, marks_end, waits, inside)
    if not inside:
        marks_begin()


def always() -> None:
    """From now on, all nodes are tagged while tags are on."""
    switch: Any = getattr(native.compiled, "switch_tags", None)
    if switch is not None:
        switch((), None, None, None, False)
        if _enabled_by_us:
            torch.autograd.set_detect_anomaly(True, check_nan=False)


_HINT = (
    "Hint: the backtrace further above shows the operation that failed to compute its gradient. "
    "The variable in question was changed in there or anywhere later. Good luck!"
)
_USUAL_HINT = (
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
    "with torch.autograd.set_detect_anomaly(True{})."
)


def hint_as_usual(error: BaseException) -> None:
    """Restores the hint that PyTorch's message has without anomaly mode, because no backtrace was printed above."""
    if _enabled_by_us and error.args:
        message, *rest = error.args
        if isinstance(message, str) and _HINT in message:
            more = ", check_nan=False" if torch.torch_version.TorchVersion(torch.__version__) >= "2.11" else ""
            error.args = (message.replace(_HINT, _USUAL_HINT.format(more)), *rest)


def _filters_changed() -> None:
    warnings._filters_mutated()  # type: ignore[attr-defined]


def tag_of(node: Any) -> Tag | None:
    """The node's tag, if it has one."""
    tag = node.metadata.get("traceback_")
    return tag if isinstance(tag, Tag) else None
