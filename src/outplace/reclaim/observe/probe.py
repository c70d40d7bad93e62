"""Runs inside the program's process: records memory and digests, and stops the program after a few steps.

It is started by the environment that `outplace reclaim` gives to the runs it makes. In `outplace.settings`, `RECLAIM`
is where the account and the digests are left; `STEPS` how many optimizer steps are enough; `OVERLAY` a file of texts
that are compiled in place of the program's own; `LEDGER` asks for the account and the digests (without it nothing
watches, and there are only the clock and the peak of CUDA's allocator).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outplace import settings
from outplace.reclaim.observe.digests import Digests, of_leaves, of_tensors
from outplace.runtime.patches.table import Patch, Section, Undo, after_torch, registered, replaced
from outplace.runtime.program import attachment, evidence, seeds
from outplace.runtime.record.user_files import own_files

RECORDING, DIGESTS, STOPPED = "recording.json", "digests.json", "stopped"
_BACKWARDS_A_STEP = 8
"""A program that never calls an optimizer is stopped after so many backwards for each step asked for."""


def start() -> None:
    """Reads the environment variables, and removes them so that child processes do not see them."""
    folder, overlay = settings.RECLAIM.take(), settings.OVERLAY.take()
    if overlay:
        evidence.lay_over(json.loads(Path(overlay).read_text(encoding="utf-8")))
    seeds.start(settings.SEED.take())
    probe = _Probe(Path(folder), settings.STEPS.take(), settings.LEDGER.take(), settings.EXACT.take())
    attachment.more.append(_section(probe))
    atexit.register(probe.end)


def _section(probe: _Probe) -> Section:
    return Section("a run for its memory (outplace reclaim)", probe.patches, after_torch)


def example() -> Section:
    """The section of such a run, to be listed."""
    return _section(_Probe(Path(), 1, ledger=True, exact=True))


class _Probe:
    def __init__(self, folder: Path, steps: int, ledger: bool, exact: bool) -> None:
        self._folder, self._steps, self._wanted, self._exact = folder, steps, ledger, exact
        self._ledger: Any = None
        self._digests = Digests()
        self._backwards = 0
        self._optimizers: Counter[int] = Counter()
        self._seconds: list[float] = []
        self._pid = os.getpid()
        self._over = False

    def patches(self) -> Iterator[Patch]:
        """What is changed in torch, which has just been imported."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        if self._exact:
            why = "CUDA shall compute the same bits in each run."
            yield Patch("algorithms of CUDA", "replaced", why, _make_exact, "They stay as they are set.")
        for name in ("backward", "grad"):
            yield replaced(torch.autograd, name, self._watched, "The backwards of a run and their gradients are noted.")
        where, why = "torch.optim.optimizer._global_optimizer_post_hooks", "The program ends after a few steps."
        yield registered(where, lambda: register_optimizer_step_post_hook(self._stepped), why)
        if self._wanted:
            from outplace.reclaim.observe.ledger import Ledger

            self._ledger = Ledger()
            yield from self._ledger.patches()

    def _watched(self, function: Any) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._ledger is None:
                result = function(*args, **kwargs)
            else:
                arguments = signature.bind(*args, **kwargs).arguments
                result = self._with_digests(function, arguments, sys._getframe(1), args, kwargs)
            self._backwards += 1
            if self._backwards >= _BACKWARDS_A_STEP * self._steps and not self._optimizers:
                self._stop()
            return result

        return watched

    def _with_digests(self, function: Any, given: dict[str, Any], frame: Any, args: Any, kwargs: Any) -> Any:
        """Runs a backward and records its losses and gradients."""
        import torch

        roots = given.get("tensors", given.get("outputs"))
        roots = [roots] if isinstance(roots, torch.Tensor) else list(roots or ())
        leaves = evidence.leaves(roots)
        with self._unseen():
            self._digests.losses.append(of_tensors(roots))
            begun = self._ledger.backward_begins(frame, roots, bool(given.get("retain_graph")))
        given.clear()  # what the program lets go of meanwhile must not live on here
        del roots
        result = function(*args, **kwargs)
        self._ledger.backward_ends(begun)
        with self._unseen():
            returned = [item for item in result or () if isinstance(item, torch.Tensor)]
            self._digests.gradients.append(of_leaves(leaves) + of_tensors(returned))
        return result

    @contextlib.contextmanager
    def _unseen(self) -> Any:
        """Marks operations as ours, not the program's."""
        import torch

        with self._ledger.paused(), torch.no_grad():
            yield

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._over:
            return
        self._seconds.append(_clock())
        if self._ledger is not None:
            with self._unseen():
                self._digests.parameters.append(of_tensors(p for g in optimizer.param_groups for p in g["params"]))
                self._digests.buffers.append(of_tensors(self._ledger.buffers()))
            self._ledger.stepped()
        self._optimizers[id(optimizer)] += 1
        if self._optimizers[id(optimizer)] >= self._steps:
            self._stop()

    def _stop(self) -> None:
        """Stops the program here, without its exit handlers."""
        if os.getpid() != self._pid:
            return
        self._leave(ended=False)
        (self._folder / STOPPED).touch()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    def end(self) -> None:
        """The program has ended by itself."""
        if not self._over and os.getpid() == self._pid:
            self._leave(ended=True)

    def _leave(self, ended: bool) -> None:
        self._over = True
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        files = sorted({os.path.realpath(path) for path in loaded if isinstance(path, str) and own_files[path]})
        self._digests.write(self._folder / DIGESTS)
        if self._ledger is not None:
            recording = self._ledger.finish(ended)
        else:
            from outplace.reclaim.observe.recording import Recording

            recording = Recording(ended=ended)
        recording.files = [path for path in files if path.endswith(".py")]
        recording.torch = str(getattr(sys.modules.get("torch"), "__version__", ""))
        recording.allocator_peak, recording.seconds = _allocator_peak(), self._seconds
        recording.write(self._folder / RECORDING)


def _make_exact() -> Undo:
    import torch

    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    return bool


def _clock() -> float:
    """The time, after waiting for CUDA."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def _allocator_peak() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return max(int(torch.cuda.max_memory_allocated(device)) for device in range(torch.cuda.device_count()))
