"""Dynamo and `torch.jit.trace` trace the code that calls outplace's hooks, and must find nothing of outplace there.

If every mark tested for them, it would be slower in all the programs that never compile. So the test starts when a
program first asks for a compilation or a trace. Importing Dynamo is no sign of that: making an optimizer imports it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from outplace.runtime import instrument
from outplace.runtime.patches import optimizer_steps, tensor_writes
from outplace.runtime.patches.code_injection import rewritten
from outplace.runtime.patches.table import Patch, Undo, full_name, registered, replaced, swap
from outplace.runtime.record import log, regions
from outplace.runtime.record.user_files import OUTPLACE_FOLDER

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
RULES = "torch._dynamo.trace_rules"
_BEGAN, _MADE, _LEFT = "__outplace_compiling__", "__outplace_compiled__", "__outplace_left__"


def region_patches() -> Iterator[Patch]:
    """Keeps what a diagnosis needs of each compiled region. The rows are put in place when Dynamo has graphs."""
    graphs: Any = getattr(sys.modules[GRAPHS], "OutputGraph", None)
    if hasattr(graphs, "call_user_compiler"):
        hooks: dict[str, Callable[..., Any]] = {_BEGAN: _compiling, _MADE: _compiled, _LEFT: _left}
        why = "The graph that a backend is given knows the user's lines inside a compiled region."
        yield rewritten(graphs.call_user_compiler, _add_hooks, hooks, why).clearing(
            regions.calls, regions.compiling, regions.with_functions, _begun
        )
    rules: Any = sys.modules.get(RULES)
    if hasattr(rules, "SKIP_DIRS") and hasattr(rules, "get_mod_inlinelist") and hasattr(rules, "_recompile_re"):
        why = "Dynamo compiles all functions called around a graph break, and outplace's shall not be among them."
        yield registered("torch._dynamo.trace_rules.SKIP_DIRS", lambda: _skip_own_files(rules), why)


def _skip_own_files(rules: Any) -> Undo:
    """Dynamo still traces the first line of a mark (`get_mod_inlinelist`), and all of `outplace.updates`."""
    with os.scandir(OUTPLACE_FOLDER) as entries:
        folders = [os.path.join(entry.path, "") for entry in entries if entry.is_dir() and entry.name != "updates"]
    folders = [folder.replace(os.sep, "/") for folder in folders]
    inlined = rules.get_mod_inlinelist()
    rules.SKIP_DIRS.extend(folders)
    inlined.update(folders)
    rules._recompile_re()

    def undo() -> None:
        rules.SKIP_DIRS[:] = [folder for folder in rules.SKIP_DIRS if folder not in folders]
        inlined.difference_update(folders)
        rules._recompile_re()

    return undo


def _add_hooks(definition: ast.FunctionDef) -> None:
    """Adds a call at the beginning, one around each result, and one at the end."""
    owner, module = (argument.arg for argument in definition.args.args[:2])
    begin, guarded = ast.parse(f"{_BEGAN}({owner}, {module})\ntry: pass\nfinally: {_LEFT}()").body
    for node in (*ast.walk(begin), *ast.walk(guarded)):
        ast.copy_location(node, definition.body[0])
    for node in ast.walk(definition):
        if isinstance(node, ast.Return) and node.value is not None:
            made = ast.Call(ast.Name(_MADE, ast.Load()), [node.value], [])
            node.value = ast.copy_location(made, node.value)
    assert isinstance(guarded, ast.Try)
    guarded.body = definition.body
    definition.body = [begin, guarded]


_begun: list[tuple[regions.Region | None, int]] = []
"""The compilations that are running, with the number of writes before each. The region is None if it is not kept."""


def _compiling(graph: Any, module: Any) -> None:
    region = None
    _forget_traced_writes()
    if getattr(graph, "package", None) is None:  # else it is written to a file, and must be what the backend made
        with contextlib.suppress(Exception):  # what cannot be copied is not kept
            region = regions.Region(module, graph.example_inputs())
    if region is not None:
        regions.compiling.append(region)
        regions.with_functions += [region] if region.has_functions else []
    _begun.append((region, len(log.current().writes)))


def _compiled(compiled: Any) -> Any:
    region = _begun[-1][0] if _begun else None
    return compiled if region is None else regions.around(region, _made(compiled))


def _left() -> None:
    if _begun:  # else outplace has been detached in between
        region, before = _begun.pop()
        del log.current().writes[before:]  # to tensors that are not the program's
        if region in regions.compiling:
            regions.compiling.remove(region)


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
