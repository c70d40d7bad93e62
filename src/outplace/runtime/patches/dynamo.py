"""Dynamo traces the code that calls outplace's hooks, and must find nothing there that it cannot compile.

If every mark tested for Dynamo, it would be slower in all the programs that never compile. So the test starts when a
program first asks for a compilation. Importing Dynamo is no sign of that: making an optimizer imports it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from outplace.runtime import instrument
from outplace.runtime.patches import optimizer_steps, tensor_writes
from outplace.runtime.patches.table import Patch, Undo, full_name, swap
from outplace.runtime.record import log

MODULE = "torch._dynamo.eval_frame"


def patches(keep: Callable[[Any, str], Any]) -> Iterator[Patch]:
    """Makes the hooks test for Dynamo from its first use on. The rows are put in place when Dynamo is imported.

    `keep` is the function that marked code then calls on values that are put into a list or a context.
    """
    context: Any = getattr(sys.modules[MODULE], "_TorchDynamoContext", None)
    if context is None:  # a torch that starts Dynamo in another way: test from the beginning
        why = "Dynamo may read the code that calls our hooks."
        yield Patch("outplace.runtime.record.log.is_traced", "callback slot", why, lambda: _dynamo_in_use(keep), _STAYS)
    else:
        why = "The first compilation that a program asks for: from then on our hooks look whether Dynamo reads them."
        yield Patch(full_name(context, "__init__"), "replaced", why, lambda: _await_use(context, keep))


def _await_use(context: Any, keep: Callable[[Any, str], Any]) -> Undo:
    original = context.__init__

    @functools.wraps(original)
    def __init__(self: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
        if callback is not None and callback is not False:  # these values switch Dynamo off
            undo()
            _dynamo_in_use(keep)
        original(self, callback, *args, **kwargs)

    undo = swap(context, "__init__", __init__)
    return undo


_STAYS = "It stays: what was compiled may be compiled again."


def _dynamo_in_use(keep: Callable[[Any, str], Any]) -> Undo:
    log.is_traced = torch.compiler.is_dynamo_compiling
    tensor_writes.skip_when_traced()
    optimizer_steps.skip_when_traced()
    instrument.skip_when_traced()
    instrument.put(KEEP=keep)
    return bool
