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
    """Its cost, in time or otherwise."""
    refused: str = ""
    """How the program differed with this change, if it was rejected."""
    alone: int = 0
    """How many bytes lower the peak is with only this change."""
    together: int = 0
    """How many bytes higher the peak is with all changes but this one."""

    @property
    def saves(self) -> int:
        """The bytes saved. Some suggestions save only together, because the second highest peak is as high."""
        return max(self.alone, self.together)
