"""The order of a training step: forwards, backwards and optimizer steps, and which values a late backward needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from outplace.model import StepOrder, TrainingEvent
from outplace.source.joins import options
from outplace.source.values import Choice, Dictionary, Distribution, Instance, Items, Optimizer, Scope, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.frames import Frame
    from outplace.source.graph import Node, Path
    from outplace.source.project import Module
    from outplace.source.tape import Tape

EventKind = Literal["forward", "backward", "clear", "clip", "step"]
Lines = list[tuple["Frame", int]]
"""The running functions, the outermost first, and the line that each of them is at."""
_MOST_EVENTS = 400
_End = tuple[int, Tensor]
"""A parameter that a backward reaches, and the time of the operation that used it."""


@dataclass(frozen=True)
class Event:
    """One event: which parameters, or whose gradients, it concerns."""

    kind: EventKind
    lines: Lines
    parameters: tuple[Tensor, ...]
    time: int
    path: Path
    whole: bool
    """Are these surely all of them?"""


class Events(list[Event]):
    """The events of a run, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[tuple[Module, str], tuple[int, tuple[TrainingEvent, ...], bool]] = {}

    def of(self, frame: Frame) -> tuple[tuple[TrainingEvent, ...], bool]:
        """The events in this function, in this call or another one, and whether that is all that concerns them."""
        known = self._of.get((frame.module, frame.name))
        if known is None or known[0] != len(self):
            own = [(event, at) for event in _sure(self) if (at := _line_in(frame, event)) is not None][:_MOST_EVENTS]
            every = dict.fromkeys(id(parameter) for event, _ in own for parameter in event.parameters)
            numbers = {parameter: number for number, parameter in enumerate(every)}
            events = tuple(
                TrainingEvent(event.kind, at, frozenset(numbers[id(parameter)] for parameter in event.parameters))
                for event, at in own
            )
            complete = len(own) < _MOST_EVENTS and all(event.whole for event, _ in own) and _steps_follow(self)
            known = self._of[frame.module, frame.name] = len(self), events, complete
        return known[1:]


def _line_in(frame: Frame, event: Event) -> int | None:
    """The line of this function at the time of the event."""
    lines = [line for other, line in event.lines if (other.module, other.name) == (frame.module, frame.name)]
    return lines[-1] if lines else None


@dataclass(frozen=True)
class StepFacts:
    """A backward that needs parameters of before a step. The events that follow are added until the run ends."""

    frame: Frame
    step: Event
    step_line: int
    backward_line: int
    loss_is_older: bool
    held: tuple[tuple[str, str], ...]
    stale: tuple[str, ...]
    for_the_step: tuple[str, ...]
    optimizers: tuple[tuple[str, bool], ...]
    adds_up: bool
    events: Events

    def order(self) -> StepOrder:
        """The same as plain data."""
        frame, line = self.step.lines[-1]
        events, complete = self.events.of(self.frame)
        return StepOrder(
            self.frame.module.path, self.step_line, self.backward_line, self.loss_is_older, self.held, self.stale,
            self.for_the_step, self.optimizers, (frame.module.path, line), events, complete, self.adds_up,
        )  # fmt: skip


def step_facts(tape: Tape, roots: list[Node], lines: Lines) -> StepFacts | None:
    """The last optimizer step that breaks this backward, in the innermost function that ran both."""
    steps = [event for event in tape.events[-_MOST_EVENTS:] if event.kind == "step"]
    first_uses: dict[int, int] = {}
    for used, leaf in _ends(tape, roots):
        first_uses[id(leaf)] = min(used, first_uses.get(id(leaf), used))
    breaking = [step for step in steps if any(first_uses.get(id(p), step.time) < step.time for p in step.parameters)]
    breaking = breaking or steps[-1:]
    common = _common_function(breaking[-1].lines, lines) if breaking else None
    if common is None:
        return None
    step = breaking[-1]
    frame, step_line, backward_line = common
    weights = {id(parameter): event.time for event in breaking for parameter in event.parameters}
    held = list(_held(tape, frame))
    return StepFacts(
        frame,
        step,
        step_line,
        backward_line,
        all(root.time < step.time for root in roots),
        tuple((name.path, _shape(name.value)) for name in held),
        tuple(name.path for name in held if name.is_older_than(step) and _is_stale(name.ends, weights)),
        tuple(name.path for name in held if _only_reaches(tape, name, weights)),
        _optimizers(frame, weights),
        _adds_up(tape, roots, step, weights),
        tape.events,
    )


def _adds_up(tape: Tape, roots: list[Node], step: Event, stepped: Collection[int]) -> bool:
    """Does the backward add to earlier gradients of weights that wait for their step?

    Only weights count that it also reaches beside the stepped ones, not only through what these compute.
    """
    waiting = set[int]()
    for event in tape.events[-_MOST_EVENTS:]:
        if event.kind == "backward" and event.time < step.time:
            waiting.update(map(id, event.parameters))
        elif event.kind in ("clear", "step"):
            waiting.difference_update(map(id, event.parameters))
    stack, seen = list(roots), set[int]()
    while stack and waiting:
        node = stack.pop()
        own = {id(leaf) for leaf in node.leaves}
        if id(node) in seen or own.intersection(stepped):
            continue
        if own & waiting:
            return True
        seen.add(id(node))
        stack += node.inputs
    return False


class _Held(NamedTuple):
    """A name whose value has a graph: its nodes, and the parameters that they lead to."""

    path: str
    value: Value
    nodes: list[Node]
    ends: list[_End]

    def is_older_than(self, step: Event) -> bool:
        """Was a part of it computed before the step?"""
        return any(node.time < step.time for node in self.nodes)


def _held(tape: Tape, frame: Frame) -> Iterator[_Held]:
    with_graph = {path: (value, nodes) for path, value in _named(frame.scope) if (nodes := _with_graph(value))}
    for path, (value, nodes) in with_graph.items():
        tape.require_time()
        yield _Held(path, value, nodes, list(_ends(tape, nodes)))


def _common_function(first: Lines, second: Lines) -> tuple[Frame, int, int] | None:
    """The innermost function that both events have run in, and its line at each of them."""
    both = [(frame, line, at) for (frame, line), (other, at) in zip(first, second, strict=False) if frame is other]
    return both[-1] if both else None


def _optimizers(frame: Frame, weights: Collection[int]) -> tuple[tuple[str, bool], ...]:
    """The optimizers that a function has names for; does each step one of these parameters?"""
    return tuple(
        (path, any(id(parameter) in weights for parameter in value.parameters))
        for path, value in _named(frame.scope, with_outer=True)
        if isinstance(value, Optimizer)
    )


def _sure(events: list[Event]) -> list[Event]:
    """The events without those that clear gradients on some paths only, if the next step lies on other paths, too."""
    following: dict[int, Path] = {}
    found: list[Event] = []
    for event in reversed(events):
        if event.kind == "step":
            following.update(dict.fromkeys(map(id, event.parameters), event.path))
        if event.kind != "clear" or all(
            set(event.path) <= set(following.get(id(parameter), event.path)) for parameter in event.parameters
        ):
            found.append(event)
    return found[::-1]


def _steps_follow(events: list[Event]) -> bool:
    """Does every step lie on all paths of the backward before it? Else it may use gradients of several backwards."""
    before: dict[int, Path] = {}
    for event in events:
        if event.kind == "backward":
            before.update(dict.fromkeys(map(id, event.parameters), event.path))
        elif event.kind == "step":
            paths = [before.get(id(parameter), event.path) for parameter in event.parameters]
            if not all(set(event.path) <= set(path) for path in paths):
                return False
    return True


def _ends(tape: Tape, roots: list[Node]) -> Iterator[_End]:
    return ((node.time, leaf) for node in tape.reached(roots) for leaf in node.leaves)


def _is_stale(ends: Iterable[_End], stepped: dict[int, int]) -> bool:
    """Do they lead to parameters that were stepped after they were used? `stepped`: when each was, the last time."""
    return any(used < stepped.get(id(leaf), used) for used, leaf in ends)


def _only_reaches(tape: Tape, name: _Held, weights: Collection[int]) -> bool:
    followed = not any(node.partial for node in tape.reached(name.nodes))
    return followed and bool(name.ends) and all(id(leaf) in weights for _, leaf in name.ends)


def _named(scope: Scope, with_outer: bool = False) -> Iterator[tuple[str, Value]]:
    """The named values of a function: its variables, attributes of objects, and optimizers in lists and dicts."""
    for name, value in scope.names.items():
        yield name, value
        for option in options(value):
            yield from _inside(name, option, 2)
    if with_outer and scope.outer is not None:
        outer = _named(scope.outer, with_outer=True)
        yield from ((path, value) for path, value in outer if path.split(".")[0] not in scope.names)


def _inside(path: str, holder: Value, depth: int) -> Iterator[tuple[str, Value]]:
    if isinstance(holder, Instance):
        for name, value in holder.names.items():
            yield f"{path}.{name}", value
            if depth > 1:
                yield from _inside(f"{path}.{name}", value, depth - 1)
    elif isinstance(holder, Items | Dictionary):
        numbered = enumerate(holder.items) if isinstance(holder, Items) else holder.items.items()
        yield from ((f"{path}[{key!r}]", value) for key, value in numbered if isinstance(value, Optimizer))


def _with_graph(value: Value, depth: int = 3) -> list[Node]:
    """The nodes of a tensor that was computed, or of those in a container."""
    found: list[Node] = []
    for option in options(value):
        if isinstance(option, Tensor):
            node = option.family.node if option.family.since > option.since else option.node
            found += [node] if node is not None else []
        elif depth > 1:
            found += [node for part in _parts(option) for node in _with_graph(part, depth - 1)]
    return found


def _parts(value: Value) -> list[Value]:
    if isinstance(value, Distribution):
        return [*value.where, *value.spread]
    if isinstance(value, Dictionary):
        return [*value.items.values(), *([value.rest] if value.rest is not None else [])]
    return [*value.items, *([value.rest] if value.rest is not None else [])] if isinstance(value, Items) else []


def _shape(value: Value) -> str:
    """`tensor`, `tuple`, `list` or `dict` of tensors; `list of tuple`; `distribution`; empty where that is not sure."""
    if isinstance(value, Choice):
        shapes = set(map(_shape, options(value)))
        return shapes.pop() if len(shapes) == 1 else ""
    if isinstance(value, Tensor | Distribution):
        return "tensor" if isinstance(value, Tensor) else "distribution"
    if not isinstance(value, Items | Dictionary):
        return ""
    name = "dict" if isinstance(value, Dictionary) else value.kind
    inner = {_shape(part) for part in _parts(value)}
    if inner == {"tensor"}:
        return name
    only = inner.pop() if len(inner) == 1 else ""
    return f"{name} of {only}" if only else ""
