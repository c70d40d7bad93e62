"""Dynamo and `torch.jit.trace` trace the code that calls outplace's hooks, and must find nothing of outplace there.

If every mark tested for them, it would be slower in all the programs that never compile. So the test starts when a
program first asks for a compilation or a trace. Importing Dynamo is no sign of that: making an optimizer imports it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from outplace.runtime import instrument
from outplace.runtime.patches import optimizer_steps, tensor_writes
from outplace.runtime.patches.table import Patch, Undo, full_name, replaced, swap
from outplace.runtime.record import log, regions

MODULE = "torch._dynamo.eval_frame"


def patches(keep: Callable[[Any, str], Any], begins: Callable[[], None]) -> Iterator[Patch]:
    """Makes the hooks test for Dynamo from its first use on. The rows are put in place when Dynamo is imported.

    `keep` is the function that marked code then calls on values that are put into a list or a context. `begins` is
    called at the first use.
    """
    context: Any = getattr(sys.modules[MODULE], "_TorchDynamoContext", None)
    if context is None:  # a torch that starts Dynamo in another way: test from the beginning
        why = "Dynamo may read the code that calls our hooks."
        yield Patch("outplace.runtime.record.log.is_traced", "callback slot", why, lambda: _in_use(keep), _STAYS)
    else:
        why = "The first compilation that a program asks for: from then on our hooks look whether Dynamo reads them."
        yield Patch(full_name(context, "__init__"), "replaced", why, lambda: _await_use(context, keep, begins))


def _await_use(context: Any, keep: Callable[[Any, str], Any], begins: Callable[[], None]) -> Undo:
    original = context.__init__

    @functools.wraps(original)
    def __init__(self: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
        if callback is not None and callback is not False:  # these values switch Dynamo off
            undo()
            begins()
            _in_use(keep)
        original(self, callback, *args, **kwargs)

    undo = swap(context, "__init__", __init__)
    return undo


_STAYS = "It stays: what was compiled may be compiled again."


def _in_use(keep: Callable[[Any, str], Any], is_traced: Callable[[], bool] | None = None) -> Undo:
    if log.is_traced is not _is_traced:
        log.is_traced = is_traced or torch.compiler.is_dynamo_compiling
    tensor_writes.skip_when_traced()
    optimizer_steps.skip_when_traced()
    instrument.skip_when_traced()
    instrument.put(KEEP=keep)
    return bool


_NAME_LOOKUP = "_create_interpreter_name_lookup_fn"


def torchscript_patches(keep: Callable[[Any, str], Any], begins: Callable[[], None]) -> Iterator[Patch]:
    """Makes the hooks test for a trace of TorchScript, too, from the first one on. It takes what `patches` takes."""
    if hasattr(torch.jit._trace, _NAME_LOOKUP):
        why = "Each trace of TorchScript begins with it: from then on our hooks look whether they are traced."
        yield replaced(torch.jit._trace, _NAME_LOOKUP, functools.partial(_when_tracing, keep, begins), why)


def _when_tracing(keep: Callable[[Any, str], Any], begins: Callable[[], None], original: Any) -> Any:
    @functools.wraps(original)
    def lookup(*args: Any, **kwargs: Any) -> Any:
        if log.is_traced is not _is_traced:
            begins()
            _in_use(keep, _is_traced)
        return original(*args, **kwargs)

    return lookup


def _is_traced() -> bool:
    return torch.compiler.is_dynamo_compiling() or torch._C._get_tracing_state() is not None


GRAPHS = "torch._dynamo.output_graph"


def region_patches() -> Iterator[Patch]:
    """Keeps what a diagnosis needs of each region that is compiled. The row is put in place when Dynamo has graphs."""
    graphs: Any = getattr(sys.modules[GRAPHS], "OutputGraph", None)
    if hasattr(graphs, "call_user_compiler"):
        why = "The graph that a backend is given knows the user's lines inside a compiled region."
        yield replaced(graphs, "call_user_compiler", _with_region, why).clearing(regions.calls, regions.compiling)


def _with_region(original: Any) -> Any:
    @functools.wraps(original)
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "package", None) is not None:  # it is written to a file, and must be what the backend made
            return original(self, gm, *args, **kwargs)
        _forget_traced_writes()
        region = regions.Region(gm, args[0] if args else self.example_inputs())  # an older torch does not pass them
        regions.compiling.append(region)
        try:
            with log.without_writes():
                compiled = original(self, gm, *args, **kwargs)
        finally:
            regions.compiling.remove(region)
        return regions.around(region, _made(compiled))

    return call_user_compiler


_TRACER = os.path.join("torch", "_dynamo", "symbolic_convert.py")


def _forget_traced_writes() -> None:
    """Dynamo looks methods up on the program's own tensors while it traces, and calls none of them."""
    writes = log.current().writes
    while writes and any(code.co_filename.endswith(_TRACER) for code, _ in writes[-1].frames):
        del writes[-1]


def _made(compiled: Any) -> Any:
    """A module that generates its code at its first call generates it now, as Dynamo does."""
    owner = getattr(compiled, "__self__", compiled)
    if hasattr(type(owner), "force_recompile"):
        type(owner).force_recompile(owner)
        return owner.forward if getattr(compiled, "__name__", "") == "_lazy_forward" else compiled
    return compiled
