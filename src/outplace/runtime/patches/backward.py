"""The hook inside torch's backward: it notes each backward pass, and diagnoses one that fails before anybody sees it.

The hook is compiled into torch's own `_engine_run_backward`, the one function that every backward and grad goes
through, so the traceback keeps exactly the frames and lines it always had.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import torch.autograd.graph

from outplace.runtime.patches.code_injection import rewritten
from outplace.runtime.patches.table import Patch
from outplace.runtime.record import log, native
from outplace.runtime.silent import reporting, scan

STARTED, FAILED, FINISHED = "__outplace_backward__", "__outplace_failed__", "__outplace_finished__"


def started() -> None:
    """A backward pass begins (called from inside torch's function)."""
    log.state.backwards += 1
    frame = sys._getframe(1)
    _note(frame)
    if any(scan.noticed):
        _look(frame)


def finished() -> None:
    """A backward pass is over, well or not (called from inside torch's function)."""
    if any(_UNFINISHED):
        scan.finish_backward(sys._getframe(1))


def _note(frame: FrameType) -> None:
    log.add_backward(frame.f_back)


def _look(frame: FrameType) -> None:
    if scan.wants_to_look():
        scan.examine_backward(frame)


_UNFINISHED = [scan.running, reporting.to_raise]

if native.compiled is not None:
    native.compiled.connect_backwards(scan.noticed, _look, _UNFINISHED, scan.finish_backward, _note)
    started, finished = native.compiled.started, native.compiled.finished


def patches(on_failure: Callable[[FrameType], None]) -> Iterator[Patch]:
    """The hooks; `on_failure` gets the frame of torch's function while the exception is being handled."""
    hooks = {STARTED: started, FINISHED: finished, FAILED: lambda: on_failure(sys._getframe(1))}
    why = "Every backward and grad goes through it: it is noted, and diagnosed if it fails."
    yield rewritten(torch.autograd.graph._engine_run_backward, _add_hooks, hooks, why)


def _add_hooks(definition: ast.FunctionDef) -> None:
    """A call at its beginning, one where an exception passes through, and one at its end."""
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
