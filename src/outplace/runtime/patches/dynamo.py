"""When Dynamo compiles: it reads the code that calls our hooks, and must find nothing there that it cannot compile.

Looking at every mark whether Dynamo is reading it costs a part of the mark in all the programs that never compile, so
it begins when a program first asks for a compilation. Importing Dynamo means nothing: making an optimizer imports it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from outplace.runtime import instrument
from outplace.runtime.patches import import_hooks, optimizer_steps, tensor_writes
from outplace.runtime.record import log
from outplace.runtime.silent.rules import kept_references

_MODULE = "torch._dynamo.eval_frame"

_original: Callable[..., None] | None = None
_stop_waiting: list[Callable[[], None]] = []


def install() -> None:
    """Has the hooks look for Dynamo from its first use on."""
    if _MODULE in sys.modules:
        _await_use()
    else:
        _stop_waiting.append(import_hooks.then(_MODULE, _await_use))


def uninstall() -> None:
    """Waits for it no longer."""
    global _original
    while _stop_waiting:
        _stop_waiting.pop()()
    if _original is not None:
        sys.modules[_MODULE]._TorchDynamoContext.__init__ = _original
        _original = None


def _await_use() -> None:
    global _original
    context: Any = getattr(sys.modules[_MODULE], "_TorchDynamoContext", None)
    if context is None:  # a torch that begins in another way: the marks look from the start
        _heed()
        return
    original = _original = context.__init__

    @functools.wraps(original)
    def __init__(self: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
        if callback is not None and callback is not False:  # those switch Dynamo off
            uninstall()
            _heed()
        original(self, callback, *args, **kwargs)

    context.__init__ = __init__


def _heed() -> None:
    log.is_traced = torch.compiler.is_dynamo_compiling
    tensor_writes.heed_dynamo()
    optimizer_steps.heed_dynamo()
    instrument.heed_dynamo()
    instrument.put(KEEP=kept_references.note_kept)
