"""One run of the program for a few steps, and what it left behind."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from outplace.reclaim.observe.digests import Digests
from outplace.reclaim.observe.recording import Recording
from outplace.reclaim.observe.timeline import Account


@dataclass
class Trial:
    """One run: how it ended, its memory recording and its digests."""

    code: int
    timed_out: bool
    stopped: bool
    """Was it stopped after enough steps?"""
    output: bytes
    errors: str
    recording: Recording | None
    digests: Digests | None

    @property
    def good(self) -> bool:
        """Did the run succeed?"""
        return self.code == 0 and not self.timed_out and self.recording is not None

    def differs_from(self, other: Trial) -> str:
        """How this run differs from the other, in a few words; empty if both gave the same bits."""
        if self.timed_out:
            return "it does not come to its end"
        if not self.good or self.digests is None or other.digests is None:
            lines = self.errors.strip().splitlines()
            return f"it fails: {lines[-1]}" if lines else f"it fails with exit code {self.code}"
        for name in ("losses", "gradients", "parameters", "buffers"):
            mine, theirs = getattr(self.digests, name), getattr(other.digests, name)
            for number, (one, two) in enumerate(zip(mine, theirs, strict=False), 1):
                if one != two:
                    return f"other {name} (number {number} of {len(theirs)})"
            if len(mine) != len(theirs):
                return f"{len(mine)} {name} instead of {len(theirs)}"
        return "" if self.digests.has_gradients else "nothing to compare"

    @property
    def peak(self) -> int:
        """The peak in the recording; without a recording, the figure of CUDA's allocator."""
        if self.recording is None:
            return 0
        if self.recording.operations:
            return Account(self.recording).curve().peak
        return self.recording.allocator_peak or 0

    @property
    def seconds(self) -> float | None:
        """The shortest time between two steps. The first steps are slower."""
        clock = self.recording.seconds if self.recording is not None else []
        return min((later - earlier for earlier, later in pairwise(clock)), default=None)
