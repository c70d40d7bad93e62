"""Memory that an operation uses internally (cuDNN workspaces, oneDNN's reordered copies).

No tensor owns this memory, so only the allocator knows it. CUDA's allocator keeps statistics. The CPU's allocator
reports to torch's profiler, which is switched on for one operation at a time.
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
    """The internal memory of one operation: `taken` was freed before its end, `stays` was not."""

    taken = 0
    stays = 0

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class OnCuda(Workspace):
    """Reads the statistics of CUDA's allocator."""

    def __enter__(self) -> Workspace:
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.memory_allocated()
        return self

    def __exit__(self, *_: object) -> None:
        now = torch.cuda.memory_allocated()
        self.taken = max(0, torch.cuda.max_memory_allocated() - now)
        self.stays = now - self._before


class OnCpu(Workspace):
    """Reads the CPU allocator through a profiler. Does nothing if the program runs its own profiler."""

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
    """Settings of a profiler that records only memory; None if this torch does not offer one."""
    try:
        from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

        memory_only = (False, True, False, False, False)  # shapes, memory, stacks, flops, modules
        return ProfilerConfig(ProfilerState.CPU, *memory_only, _ExperimentalConfig()) if _enable and _disable else None
    except (ImportError, TypeError):
        return None
