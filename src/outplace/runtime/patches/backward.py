"""The hook inside torch's backward. It records each backward, and diagnoses one that fails before the error gets out.

The hook is compiled into torch's `_engine_run_backward`, the one function that every backward and grad calls. So the
traceback keeps exactly the frames and lines that it had.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sized
from types import FrameType

import torch.autograd.graph

from outplace.runtime.patches.code_injection import rewritten
from outplace.runtime.patches.table import Patch, Undo
from outplace.runtime.record import log, native

STARTED, FAILED, FINISHED = "__outplace_backward__", "__outplace_failed__", "__outplace_finished__"


noticed: list[Sized] = []
"""While all of these are empty, the start of a backward calls nothing."""
unfinished: list[Sized] = []
"""While all of these are empty, the end of a backward calls nothing."""


def _nobody(frame: FrameType) -> None:
    return None


_on_start: Callable[[FrameType], None] = _nobody
_on_finish: Callable[[FrameType], None] = _nobody


def connect(
    more_noticed: list[Sized],
    on_start: Callable[[FrameType], None],
    more_unfinished: list[Sized],
    on_finish: Callable[[FrameType], None],
) -> Undo:
    """Calls `on_start` at the start of a backward if something is noticed, `on_finish` at its end if work is left."""
    global _on_start, _on_finish
    _on_start, _on_finish = on_start, on_finish
    noticed.extend(more_noticed)
    unfinished.extend(more_unfinished)

    def undo() -> None:
        global _on_start, _on_finish
        _on_start = _on_finish = _nobody
        for lists, added in ((noticed, more_noticed), (unfinished, more_unfinished)):
            lists[:] = [item for item in lists if not any(item is mine for mine in added)]

    return undo


def begin(frame: FrameType) -> None:
    """A backward begins, in this frame of torch."""
    log.state.backwards += 1
    _note(frame)
    if any(noticed):
        _look(frame)


def started() -> None:
    """A backward begins (called from inside torch's function)."""
    begin(sys._getframe(1))


def finished() -> None:
    """A backward has ended, with or without an error (called from inside torch's function)."""
    if any(unfinished):
        _finish(sys._getframe(1))


def _note(frame: FrameType) -> None:
    log.add_backward(frame.f_back)


def _look(frame: FrameType) -> None:
    _on_start(frame)


def _finish(frame: FrameType) -> None:
    _on_finish(frame)


if native.compiled is not None:
    native.compiled.connect_backwards(noticed, _look, unfinished, _finish, _note)
    started, finished = native.compiled.started, native.compiled.finished


def patches(on_failure: Callable[[FrameType], None]) -> Iterator[Patch]:
    """The hooks. `on_failure` gets the frame of torch's function while the exception is handled."""
    hooks = {STARTED: started, FINISHED: finished, FAILED: lambda: on_failure(sys._getframe(1))}
    why = "Every backward and grad goes through it: it is noted, and diagnosed if it fails."
    yield rewritten(torch.autograd.graph._engine_run_backward, _add_hooks, hooks, why)


def _add_hooks(definition: ast.FunctionDef) -> None:
    """Adds three calls: at the beginning, where an exception passes through, and at the end."""
    inner = next((node for node in definition.body if isinstance(node, ast.Try)), definition.body[0])
    begin = ast.copy_location(ast.parse(f"{STARTED}()").body[0], inner)
    handler = ast.parse(f"try: pass\nexcept Exception:\n    {FAILED}()\n    raise").body[0]
    assert isinstance(handler, ast.Try)
    end = ast.parse(f"{FINISHED}()").body[0]
    guarded = ast.Try(body=definition.body, handlers=handler.handlers, orelse=[], finalbody=[end])
    for node in (begin, end, *ast.walk(handler.handlers[0])):
        for child in ast.walk(node):
            ast.copy_location(child, inner)
    definition.body = [begin, ast.copy_location(guarded, inner)]
