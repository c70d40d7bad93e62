"""What an operation takes and gives back inside itself (cuDNN's workspaces, oneDNN's reordered copies).

No tensor stands for this memory, so nothing but the allocator can tell of it. CUDA's keeps figures; the CPU's reports
each allocation to torch's profiler, which is switched on for the one operation.
"""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any

import torch

_enable: Any = getattr(torch._C._autograd, "_enable_profiler_legacy", None)
_disable: Any = getattr(torch._C._autograd, "_disable_profiler_legacy", None)
_ALLOCATION = "memory_alloc"


class Workspace:
    """Around one operation: `taken` is what was given back before its end, `stays` what was not."""

    taken = 0
    stays = 0

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class OnCuda(Workspace):
    """By the figures of CUDA's allocator."""

    def __enter__(self) -> Workspace:
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.memory_allocated()
        return self

    def __exit__(self, *_: object) -> None:
        now = torch.cuda.memory_allocated()
        self.taken = max(0, torch.cuda.max_memory_allocated() - now)
        self.stays = now - self._before


class OnCpu(Workspace):
    """By what the CPU's allocator tells a profiler; a program that runs one of its own is left alone."""

    def __enter__(self) -> Workspace:
        settings = _settings()
        self._on = settings is not None and not torch._C._autograd._profiler_enabled()
        if self._on:
            _enable(settings)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._on:
            return
        events = [event for thread in _disable() for event in thread if event.kind() == _ALLOCATION]
        sums = list(accumulate((event.cpu_memory_usage() for event in events), initial=0))
        self.taken = max(sums) - max(sums[-1], 0)


@functools.cache
def _settings() -> Any:
    """Those of a profiler that looks at memory alone; None where torch has none of this kind any more."""
    try:
        from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

        memory_only = (False, True, False, False, False)  # shapes, memory, stacks, flops, modules
        return ProfilerConfig(ProfilerState.CPU, *memory_only, _ExperimentalConfig()) if _enable and _disable else None
    except (ImportError, TypeError):
        return None
