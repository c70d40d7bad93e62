"""Programs recorded in the test's own process, and run with changes: by plain `exec`, without anything of outplace."""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from outplace.reclaim.observe.ledger import Ledger
from outplace.reclaim.observe.recording import Recording
from outplace.reclaim.rules.advice import Advice, advise, edited
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.files import Files
from outplace.runtime.patches import saved_tensor_hooks
from outplace.runtime.patches.table import Section, Table


def record(path: Path, arguments: Sequence[str] = (), source: str | None = None) -> Recording:
    """Runs a program, or another source in its place, to its end under a ledger."""
    ledger = Ledger()
    backward = torch.autograd.backward

    def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        retain = bool(kwargs.get("retain_graph") or (len(args) > 1 and args[1]))
        with ledger.paused():
            begun = ledger.backward_begins(sys._getframe(1), roots, retain)
        del roots
        backward(tensors, *args, **kwargs)
        ledger.backward_ends(begun)

    rows = Section("the ledger", lambda: [*saved_tensor_hooks.patches(), *ledger.patches()])
    with mock.patch.object(torch.autograd, "backward", watched), _in_place(rows):
        _exec(path.read_text() if source is None else source, path, arguments)
    return ledger.finish(ended=True)


@contextlib.contextmanager
def _in_place(section: Section) -> Iterator[None]:
    table = Table()
    table.open(section)
    try:
        yield
    finally:
        table.close()


def _exec(source: str, path: Path, arguments: Sequence[str]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    with mock.patch.object(sys, "argv", [str(path), *arguments]), contextlib.redirect_stdout(io.StringIO()) as printed:
        torch.manual_seed(0)
        exec(compile(source, str(path), "exec"), namespace)
    namespace["__printed__"] = printed.getvalue()
    return namespace


def advised(path: Path, arguments: Sequence[str] = (), recompute: bool = False) -> tuple[Advice, Files]:
    files = Files({str(path): path.read_text()}, may_read=False)
    return advise(record(path, arguments), files, recompute), files


def computed(path: Path, source: str, arguments: Sequence[str] = ()) -> str:
    """What a program prints, and all gradients of the leaves it leaves in `leaves` or has seen in a backward."""
    seen = hashlib.sha256()
    backward = torch.autograd.backward

    def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        found = _leaves(roots)
        for root in roots:
            seen.update(root.detach().numpy().tobytes())
        backward(tensors, *args, **kwargs)
        pairs = [_bytes(leaf) + (b"none" if leaf.grad is None else _bytes(leaf.grad)) for leaf in found]
        for pair in sorted(pairs):  # in an order that does not depend on the graph
            seen.update(pair)

    with mock.patch.object(torch.autograd, "backward", watched):
        printed = _exec(source, path, arguments)["__printed__"]
    return printed + seen.hexdigest()


def _leaves(roots: list[torch.Tensor]) -> list[torch.Tensor]:
    stack, seen, found = [root.grad_fn for root in roots], set(), []
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        stack += [following for following, _ in node.next_functions]
    return found


def _bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().contiguous().numpy().tobytes())


def changed(files: Files, path: Path, suggestions: Sequence[Suggestion]) -> str:
    made = edited(files, suggestions)
    assert made is not None
    return made.text(str(path))
