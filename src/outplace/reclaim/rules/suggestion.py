"""One way to use less memory: where, what to write, what it saves, and why it is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from outplace.model import Site
from outplace.reclaim.observe.timeline import Change
from outplace.repair.syntax.edits import Edit

Kind = Literal["in-place", "del", "retain-graph", "detach", "zero-grad", "recompute", "advice"]


@dataclass
class Suggestion:
    """A suggestion. `before` and `after` are source text. Advice has no edits."""

    kind: Kind
    site: Site
    before: str
    after: str
    because: str
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    change: Change = field(default_factory=Change)
    costs: str = ""
    """What has to be paid for it, in time or otherwise."""
    refused: str = ""
    """What the program did with it that it did not do without."""
    alone: int = 0
    """Bytes by which the peak sinks where only this is done."""
    together: int = 0
    """Bytes by which the peak would rise again where all others are done and this is not."""

    @property
    def saves(self) -> int:
        """The bytes saved. Some suggestions save only together, because the second highest peak is as high."""
        return max(self.alone, self.together)
