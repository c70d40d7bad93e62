"""The base class of all detectors of silent rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from outplace.runtime.patches.table import Patch
from outplace.runtime.silent.optimizers import Optimizers


class Detector:
    """A detector is made at attach and dropped at detach. It owns all its state.

    It subscribes to an event of `record.events` by having the method `on_EVENT`, and to the start of a backward by
    `on_backward_start`.
    """

    optimizers: Optimizers
    """The optimizers of the program."""
    waiting: Sized = ()
    """While this is empty, the start of a backward does not call this detector."""

    def wants_to_look(self) -> bool:
        """Is it worth walking the graph of the backward that starts? Called only while something is pending."""
        return True

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward starts. `nodes` are the nodes of its graph."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch that this detector needs."""
        yield from ()
