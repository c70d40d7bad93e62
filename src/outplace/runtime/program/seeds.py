"""The same random numbers in all runs that are compared: those of a proof, those of `outplace reclaim`.

A program that seeds its generators draws what it always draws. One that does not would draw other numbers in each run.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

from outplace.runtime.patches.table import Patch, Section, Undo, after_import, after_torch, replaced
from outplace.runtime.program import attachment

_WHY = "Runs that are compared must draw the same random numbers."
_STAY = "They stay as they are set."


def start(seed: int) -> None:
    """Seeds Python now, numpy and torch right after their imports. Child processes draw numbers of their own."""
    if os.environ.get("PYTHONHASHSEED") == str(seed):  # so it is ours, and has done its work in this process
        del os.environ["PYTHONHASHSEED"]
    random.seed(seed)
    attachment.more.extend(sections(seed))


def sections(seed: int) -> tuple[Section, Section]:
    """What is changed in numpy and torch."""

    def of_numpy() -> Iterator[Patch]:
        yield Patch("random numbers of numpy", "replaced", _WHY, lambda: _seed_numpy(seed), _STAY)
        fresh = sys.modules.get("numpy.random.bit_generator")  # what `default_rng()` starts from
        if hasattr(fresh, "randbits"):
            yield replaced(fresh, "randbits", lambda _: random.Random(seed).getrandbits, _WHY)

    def of_torch() -> Iterator[Patch]:
        yield Patch("random numbers of torch", "replaced", _WHY, lambda: _seed_torch(seed), _STAY)

    return (
        Section("seeds of numpy (outplace run --fix, reclaim)", of_numpy, after_import("numpy.random", "default_rng")),
        Section("seeds of torch (outplace run --fix, reclaim)", of_torch, after_torch),
    )


def _seed_numpy(seed: int) -> Undo:
    sys.modules["numpy.random"].seed(seed)  # not `numpy.random`: numpy has no such attribute until the import is over
    return bool


def _seed_torch(seed: int) -> Undo:
    import torch

    torch.manual_seed(seed)
    return bool
