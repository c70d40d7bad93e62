"""The training step as a list of events, and whether a reordering leaves the gradients of each step unchanged.

Parameters are numbers. A forward reads them, a backward adds to their gradients, and a step uses those gradients. The
events are replayed in the old order and in the new one. Every step must use the same sums, and every forward must find
the parameters as the same steps left them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outplace.model import TrainingEvent
from outplace.repair.forms.step_order.order import Order, stepping

_Event = tuple[int, TrainingEvent]
"""An event and its number."""


class Training:
    """The events of the function that steps, by the statements of the block that contains the step and the backward."""

    def __init__(self, order: Order) -> None:
        self._order, self._code = order, order.code
        self._block = order.code.block(order.outer_step)
        moment = order.moment
        self._known = moment.complete and not self._looks_at_gradients()
        self._events: list[_Event] = list(enumerate([*moment.events, *moment.events]))  # as if it were called twice

    def _looks_at_gradients(self) -> bool:
        """Does anything but a report at the end of the program read gradients?"""
        found = [node for node in self._code.every(ast.Attribute) if node.attr == "grad"]
        return any(self._code.scope(node) is not self._code.tree or self._code.loops(node) for node in found)

    def parameters(self, statement: ast.stmt, *kinds: str) -> frozenset[int]:
        """The parameters in the events of a statement."""
        lines = _lines(statement)
        events = [event for event in self._order.moment.events if event.kind in kinds and event.line in lines]
        return frozenset(number for event in events for number in event.parameters)

    def keeps_steps(
        self, new_order: Sequence[ast.stmt] = (), reached: Mapping[ast.stmt, frozenset[int]] | None = None
    ) -> bool:
        """Does every step use the same gradients in this order of statements?

        `reached`: the backwards reach only these parameters.
        """
        if not self._known:
            return False
        ranks = {self._block.index(statement): rank for rank, statement in enumerate(new_order)}
        limits = {self._block.index(statement): kept for statement, kept in (reached or {}).items()}
        events = [
            event for part in self._rounds() for event in sorted(part, key=lambda item: ranks.get(item[0], item[0]))
        ]
        limited = [(number, _limited(event, limits.get(place))) for place, (number, event) in events]
        return _replayed(limited) == _replayed(self._events)

    def keeps_steps_behind(self, loop: ast.stmt) -> bool:
        """Does every step use the same gradients, if those of a loop come after all of its iterations?"""
        lines, moved = _lines(loop), list[_Event]()
        waiting: list[_Event] = []
        for number, event in self._events:
            if event.line not in lines:
                moved, waiting = [*moved, *waiting], []
            late = event.kind == "step" and event.line in lines
            (waiting if late else moved).append((number, event))
        return self._known and _replayed([*moved, *waiting]) == _replayed(self._events)

    def cut_keeps_steps(self) -> bool:
        """Does every step use the same gradients, if the backward after the step does not reach what was just stepped?

        It must reach something else.
        """
        backward = self._order.outer_backward
        stepped = self.parameters(self._order.outer_step, "step")
        left = self.parameters(backward, "backward") - stepped
        return bool(stepped and left) and self.keeps_steps(reached={backward: left})

    def others_are_unused(self) -> bool:
        """Does every step use the same gradients, if each backward reaches only what is stepped before the next one?"""
        if not self._known:
            return False
        lines, limited, own = _lines(self._order.outer_backward), list[_Event](), frozenset[int]()
        for number, event in reversed(self._events):
            if event.kind == "step":
                own |= event.parameters
            kept = own if event.line in lines else None
            limited.append((number, _limited(event, kept)))
            own = frozenset() if event.kind == "backward" else own
        return _replayed(limited[::-1]) == _replayed(self._events)

    def clears_all_first(self) -> bool:
        """Are the gradients of all weights that are stepped cleared before the first backward?"""
        events = self._order.moment.events
        first = next((number for number, event in enumerate(events) if event.kind == "backward"), 0)
        cleared = frozenset[int]().union(*(event.parameters for event in events[:first] if event.kind == "clear"))
        return all(event.parameters <= cleared for event in events if event.kind == "step")

    def trains_again(self) -> bool | None:
        """Does the next step after the backward update parameters that the step before it also updated?

        None if there is no next step.
        """
        if not self._order.moment.from_source:
            return self._next_optimizer()
        lines, stepped = _lines(self._order.outer_backward), self.parameters(self._order.outer_step, "step")
        events = [event for _, event in self._events]
        last = next((n for n, event in enumerate(events) if event.kind == "backward" and event.line in lines), None)
        after = events[last:] if last is not None else []
        return next((bool(event.parameters & stepped) for event in after if event.kind == "step"), None)

    def _next_optimizer(self) -> bool | None:
        """The same, from what a run has seen of the optimizers that the function can name."""
        optimizers = self._order.moment.optimizers
        for statement in self._block[self._block.index(self._order.outer_backward) :]:
            names = [stepping(node) for node in ast.walk(statement) if isinstance(node, ast.Expr)]
            found = next((name for name in names if name in optimizers), None)
            if found is not None:
                return optimizers[found]
        return None

    def iterations_are_separate(self) -> bool:
        """Does each step use the gradients of exactly one backward?

        That backward must reach as many parameters in the first loop iteration as in later ones. No other backward may
        reach the same parameters.
        """
        if not self._known:
            return False
        step, backward = (_lines(item) for item in (self._order.outer_step, self._order.outer_backward))
        went = [event for _, event in self._events if event.kind == "backward"]
        reached = [event.parameters for event in went if event.line in backward]
        others = [event.parameters for event in went if event.line not in backward]
        taken = _replayed(self._events)
        steps = [taken[number] for number, event in self._events if event.kind == "step" and event.line in step]
        alone = all(_count(gradient) <= 1 for item in steps for _, gradient in item)
        apart = bool(reached) and not any(other & reached[0] for other in others)
        return alone and apart and all(item <= reached[0] for item in reached)

    def _rounds(self) -> Iterable[list[tuple[int, _Event]]]:
        """The events of each pass through the block, each with the position of its statement in the block."""
        part: list[tuple[int, _Event]] = []
        for number, event in self._events:
            place = self._place(event)
            if part and (place < 0 or place < part[-1][0]):
                yield part
                part = []
            part.append((place, (number, event)))
        yield part

    def _place(self, event: TrainingEvent) -> int:
        inside = (n for n, one in enumerate(self._block) if one.lineno <= event.line <= (one.end_lineno or 0))
        return next(inside, -1)


def _lines(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _limited(event: TrainingEvent, kept: frozenset[int] | None) -> TrainingEvent:
    if kept is None or event.kind != "backward":
        return event
    return event._replace(parameters=event.parameters & kept)


def _replayed(events: Iterable[_Event]) -> dict[int, Any]:
    """The gradients that each step uses, and the steps that wrote the parameters before each forward."""
    gradients: dict[int, frozenset[Any]] = {}
    written: dict[int, int] = {}
    seen: dict[int, Any] = {}
    for number, event in events:
        own = sorted(event.parameters)
        held = tuple((item, gradients.get(item, frozenset())) for item in own)
        if event.kind == "forward":
            seen[number] = [(item, written.get(item)) for item in own]
        elif event.kind == "backward":
            gradients.update((one, summed | {number}) for one, summed in held)
        elif event.kind == "clear":
            gradients.update(dict.fromkeys(own, frozenset()))
        elif event.kind == "clip":
            gradients.update(dict.fromkeys(own, frozenset({("clip", number, held)})))
        else:
            seen[number] = held
            written.update(dict.fromkeys(own, number))
    return seen


def _count(gradient: frozenset[Any]) -> int:
    """How many backwards are summed up in a gradient, clipped or not."""
    parts = [max(map(_count, (one for _, one in part[2]))) if isinstance(part, tuple) else 1 for part in gradient]
    return sum(parts)
