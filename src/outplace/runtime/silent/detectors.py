"""The detectors of the silent rules, from attach to detach."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from outplace.knowledge.silent_rules import RULES
from outplace.runtime.patches import backward
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record.events import events
from outplace.runtime.silent import scan
from outplace.runtime.silent.detector import Detector
from outplace.runtime.silent.optimizers import Optimizers
from outplace.runtime.silent.state_dicts import StateDicts


class Detectors:
    """One detector for each module that the rules name, and the parts that several of them share."""

    def __init__(self) -> None:
        self._optimizers = Optimizers()
        self._state_dicts = StateDicts()

    def patches(self, after: str = "") -> Iterator[Patch]:
        """The rows of the detectors that can start as soon as the module `after` is imported."""
        detectors = [self._make(name) for name in modules(after)]
        why = "The detectors are called for what they want to know of."
        yield Patch("outplace.runtime.record.events.events", "callback slot", why, lambda: _start(detectors))
        if not after:
            why = "What was seen before belongs to an earlier time of being attached."
            yield Patch("outplace.runtime.silent.scan", "callback slot", why, _reset_on_detach)
            why = "A node whose saved memory was written unseen is asked how far its gradient is off."
            target = "torch.autograd.graph.Node.register_prehook"
            yield registered(target, lambda: scan.stop_measuring, why, "The hooks are removed when the backward ends.")
            why = "Backwards are looked at while there are writes that autograd has not seen."
            yield Patch("outplace.runtime.patches.backward.connect", "callback slot", why, scan.connect)
            yield from self._optimizers.patches()
            yield from self._state_dicts.patches()
        for detector in detectors:
            yield from detector.patches()

    def _make(self, name: str) -> Detector:
        detector: Detector = import_module(f"outplace.runtime.silent.rules.{name}").Detector()
        detector.optimizers = self._optimizers
        return detector


def modules(after: str) -> list[str]:
    """The modules of `silent.rules` whose detectors wait for this import."""
    return list(dict.fromkeys(rule.detector for rule in RULES if rule.detector and rule.after == after))


def _reset_on_detach() -> Undo:
    scan.reset()
    return scan.reset


def _start(detectors: list[Detector]) -> Undo:
    undo = events.subscribe(detectors)
    looking = [detector for detector in detectors if type(detector).on_backward_start is not Detector.on_backward_start]
    scan.also += looking
    backward.noticed += [item.waiting for item in looking]

    def stop() -> None:
        undo()
        scan.also[:] = [item for item in scan.also if item not in looking]
        backward.noticed[:] = [item for item in backward.noticed if not any(item is mine.waiting for mine in looking)]

    return stop
