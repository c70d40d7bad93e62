"""What every detector of a silent rule is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from outplace.runtime.patches.table import Patch
from outplace.runtime.silent.optimizers import Optimizers


class Detector:
    """A detector is made at attach and dropped at detach. All its state is its own.

    It is called for an event of `record.events` by having the method `on_EVENT`, and for a backward that starts by
    `on_backward_start`.
    """

    optimizers: Optimizers
    """The optimizers of the program."""
    waiting: Sized = ()
    """While this is empty, a backward that starts is none of its business."""

    def wants_to_look(self) -> bool:
        """Something is waiting: is it worth a walk through the graph of the backward that starts?"""
        return True

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward starts; `nodes` are those of its graph."""

    def patches(self) -> Iterator[Patch]:
        """What it changes in torch."""
        yield from ()
