"""Finds silent wrong gradients while the program runs.

Writes that change no version (through `.data` or numpy, by fused optimizers, collectives ...) are recorded with a copy
of what they overwrite. If there are such writes when a backward starts, the graph is walked. A write is a suspect if it
came after a node saved the same memory. Then the node is run with the old and with the new contents, which shows how
wrong its gradient is (`compare_gradients`). Each writing line is examined for a few backwards and then less and less
often, because such a bug repeats at every step. A program without such writes pays nothing. Of a very large graph only
the nodes nearest to the loss are looked at.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from types import FrameType
from typing import Any, Protocol

import torch

from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import describe_saved
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED
from outplace.model import Diagnosis, Mutation, Tensor
from outplace.runtime.errors import dispatch
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.locate.graph_excerpt import Surroundings
from outplace.runtime.locate.savers import savers
from outplace.runtime.patches import backward
from outplace.runtime.patches.table import Undo
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import SENT, Instruction, Write
from outplace.runtime.record.snapshots import copyable, extent, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import guard, reporting
from outplace.runtime.silent.compare_gradients import Hit, how_far

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


class GraphDetector(Protocol):
    """A detector that examines backwards."""

    waiting: Sized

    def wants_to_look(self) -> bool:
        """Is it worth walking the graph? Called only while something is pending."""

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """The nodes of the graph."""


# -- at backward --------------------------------------------------------------------------------------------------

also: list[GraphDetector] = []
"""The detectors that receive the nodes of a backward that starts."""


running: dict[int, list[Hit]] = {}
"""The nodes under examination, for each running backward (they may be nested)."""


def stop_measuring() -> None:
    """Removes outplace's hooks from the nodes of all running backwards."""
    for hits in running.values():
        for hit in hits:
            hit.done()
    running.clear()


def connect() -> Undo:
    """From now on examines backwards, if there is something to look for."""
    noticed: list[Sized] = [hidden_writes.hidden, guard.active]
    return backward.connect(noticed, _backward_starts, [running, reporting.to_raise], finish_backward)


def _backward_starts(frame: FrameType) -> None:
    if _wants_to_look():
        guarded(lambda: _examine(frame))


def _wants_to_look() -> bool:
    """A backward starts and something is pending. Is there anything to look for?"""
    if hidden_writes.hidden or guard.active:
        return True
    for looking in also:  # noqa: SIM110  (a generator costs more than all of this)
        if looking.waiting and looking.wants_to_look():
            return True
    return False


def examine_rest(node: Any) -> None:
    """The backward of a Function has made an untracked write. Does it affect the nodes that have not run yet?"""
    frame = _running_backward()
    if frame is not None:
        guarded(partial(_wait_for_rest, node, frame))


def _running_backward() -> FrameType | None:
    """The frame of torch's function for the innermost backward."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not torch.autograd.graph._engine_run_backward.__code__:
        frame = frame.f_back
    return frame


def _wait_for_rest(node: Any, frame: FrameType) -> None:
    after = [following for following, _ in node.next_functions if following is not None]
    nodes = [item for item in graph.nearest(after) if graph.number_of(item) is not None]
    hits = [hit for item in nodes for hit in _suspicious(item)]
    for hit in hits:
        hit.wait()
    if hits:
        running.setdefault(id(frame), []).extend(hits)


def finish_backward(frame: FrameType) -> None:
    """That backward has ended. Reports what it has shown."""
    if running and (hits := running.pop(id(frame), None)) is not None:
        for hit in hits:
            hit.done()
        late = _late.pop(id(frame), [])
        guarded(lambda: _tell_all(hits, frame))
        for tell in late if not _has_failed(frame) else ():
            guarded(tell)
    reporting.raise_if_strict()


_late: dict[int, list[Callable[[], None]]] = {}


def at_end_of_backward(tell: Callable[[], None]) -> None:
    """Calls `tell` at the end of the backward that is starting, which may raise an error of its own."""
    frame = _running_backward()
    if frame is not None:
        running.setdefault(id(frame), [])
        _late.setdefault(id(frame), []).append(tell)


def _has_failed(frame: FrameType) -> bool:
    """Is an exception leaving this frame?"""
    error = sys.exc_info()[1]
    passed = None if error is None else error.__traceback__
    while passed is not None and passed.tb_frame is not frame:
        passed = passed.tb_next
    return passed is not None


def guarded(look: Callable[[], None]) -> None:
    """Calls `look`. An error in outplace must never stop the user's program."""
    try:
        with torch._C.DisableTorchFunction():
            look()
    except Exception as trouble:
        dispatch.report_fault(trouble)


def _examine(frame: FrameType) -> None:
    outputs = frame.f_locals.get("t_outputs", ())
    roots = graph.roots_of(outputs)
    found = graph.walk(roots) if guard.active else graph.nearest(roots)
    nodes = [node for node in found if graph.number_of(node) is not None]
    hits = [hit for node in nodes for hit in _suspicious(node)] if hidden_writes.hidden else []
    for looking in also:
        if looking.waiting:
            looking.on_backward_start(nodes)
    if guard.active:
        explained = {(hit.node, hit.saved_as) for hit in hits}
        hits += [hit for hit in guard.changed(nodes) if (hit.node, hit.saved_as) not in explained]
        guard.forget_watched()
    for hit in hits:
        hit.wait()
    if hits:
        running.setdefault(id(frame), []).extend(hits)
    hidden_writes.forget_old()


def _suspicious(node: Any) -> Iterator[Hit]:
    number = graph.number_of(node) or 0
    for saved_as, alias in graph.held(node):
        if not copyable(alias):
            continue
        start, stop = extent(alias)
        suspects = [hidden for hidden in hidden_writes.hidden if hidden.extent[0] < stop and start < hidden.extent[1]]
        later = [hidden for hidden in suspects if hidden.write.moment > number]
        hurting = later or [hidden for hidden in suspects if _changed_in_graph(hidden.write, alias)]
        if hurting:
            befores = [hidden.before for hidden in hurting if hidden.before is not None]
            patches = [before.into(alias) for before in befores] if len(befores) == len(hurting) else None
            yield Hit(node, saved_as, alias, hurting, suspects, patches, number, certain=not later)


def _changed_in_graph(write: Write, alias: torch.Tensor) -> bool:
    """Was a node's result changed through numpy before an operation used it?"""
    number = None if write.operation != hidden_writes.ARRAY or alias.grad_fn is None else graph.number_of(alias.grad_fn)
    return number is not None and write.moment > number


def _tell_all(hits: list[Hit], frame: FrameType) -> None:
    """One diagnosis for each set of writing lines, the saver nearest to the loss first."""
    bugs: dict[Any, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: -hit.number):
        if hit.reached and not hit.harmless:
            bugs.setdefault(frozenset(_lines_of(hit)) or hit.number, []).append(hit)
    for same in bugs.values():
        _tell(same, frame)


def _lines_of(hit: Hit) -> list[Instruction]:
    return [hidden.write.frames[-1] for hidden in _culprits(hit)]


def _culprits(hit: Hit) -> list[hidden_writes.Hidden]:
    """The harmful writes. If a value is swapped and swapped back, the other half of the swap is part of the bug."""
    functions = {hidden.write.frames[-1][0] for hidden in hit.writes}
    hurting = set(map(id, hit.writes))
    return [
        hidden
        for hidden in hit.suspects
        if id(hidden) in hurting or (hidden.write.frames[-1][0] in functions and _was_undone(hidden, hit.alias))
    ]


def hidden_after(number: int, tensor: torch.Tensor) -> list[Write]:
    """The hidden writes to this tensor's memory that came after this node and left different values there."""
    if not copyable(tensor):
        return []
    start, stop = extent(tensor)
    later = [
        hidden
        for hidden in hidden_writes.hidden
        if hidden.write.moment > number and hidden.extent[0] < stop and start < hidden.extent[1]
    ]
    return [hidden.write for hidden in later if not _was_undone(hidden, tensor)]


def _was_undone(hidden: hidden_writes.Hidden, alias: torch.Tensor) -> bool:
    """Are the contents from before this write in memory again?"""
    if hidden.before is None or _is_broadcast(hidden.write):
        return False
    with unobserved():
        return hidden.before.into(alias).are_in_memory()


def _inside(write: Write, alias: torch.Tensor) -> list[Write]:
    """The writes in a block that preserves versions, if they are known."""
    storage = storage_of(alias) if write.operation == hidden_writes.PRESERVED else None
    later = [item for item in log.current().writes if item.storage == storage and item.moment >= write.moment]
    return [item for item in later if item.frames] or [write]


def _tell(hits: list[Hit], frame: FrameType) -> None:
    from outplace.runtime.errors.remedies import SENT_ADVICE  # loaded late: see `reporting.report`

    first = hits[0]
    if not first.writes:
        guard.tell(first, frame)
        return
    written = [write for hidden in _culprits(first) for write in _inside(hidden.write, first.alias)]
    kind = "silent-alias" if first.writes[-1].write.operation == hidden_writes.ARRAY else "silent-data"
    mutations = mutations_of(written)
    base = first.alias if first.alias._base is None else first.alias._base
    stack = names.own_frames(None, frame)
    is_leaf = base.is_leaf and base.requires_grad
    own = None if is_leaf else target_of(written[-1], by_data=True)
    name_of_base = None if own else names.name_in_frames(base, stack)
    tensor_name = own or name_of_base or target_of(written[-1])
    unseen = "through numpy" if kind == "silent-alias" else "without a change of its version"
    found = (item for hit in hits for item in savers(hit.node, hit.saved_as, hit.alias))
    saver, *also = dict.fromkeys(found)
    why = (
        f"{describe_saved(saver.node, saver.saved_as)} for its backward. Its memory was then written {unseen}, so "
        "PyTorch cannot tell, and the gradient is computed from the wrong values."
    )
    around = Surroundings(graph.roots_of(frame.f_locals.get("t_outputs", ())), stack)
    used = kind == DATA_WRITE_USED.family and any(map(goes_on, written))
    diagnosis = Diagnosis(
        kind,
        DATA_WRITE_USED.code if used else BY_NAME[kind].code,
        reporting.NO_ERROR,
        names.described(base if name_of_base else first.alias, tensor_name),
        why,
        cause=DATA_WRITE_USED.name if used else "",
        mutations=mutations,
        saved_by=saver,
        also_saved_by=tuple(also),
        notes=how_far(hits),
    )
    remedy = SENT_ADVICE if any(map(_is_broadcast, written)) else _REMEDIES[kind]
    reporting.report(diagnosis, remedy, partial(around.of, [hit.node for hit in hits], mutations))


def report_written_array(tensor: Tensor, mutations: tuple[Mutation, ...], notes: tuple[str, ...]) -> None:
    """Reports that numpy changed a node's result, which no node has saved, before an operation used it."""
    kind = BY_NAME["silent-alias"]
    why = (
        "This is a result of the graph, and an array over its memory was written. Later operations use the changed "
        "values, but the gradient is computed as if the write had not happened."
    )
    diagnosis = Diagnosis(kind.name, kind.code, reporting.NO_ERROR, tensor, why, mutations=mutations, notes=notes)
    reporting.report(diagnosis, _REMEDIES[kind.name])


goes_on: Callable[[Write], bool] = lambda write: False  # noqa: E731
"""Did an operation use the node's result after this write? (`data_write_used` fills this slot.)"""

_REMEDIES = {
    "silent-data": "Compute the new value out of place, or write a clone; `.detach()` at least lets PyTorch notice.",
    "silent-alias": "Give numpy a copy: `.detach().numpy().copy()`, or `torch.tensor(array)` instead of from_numpy.",
}


# -- parts of a report --------------------------------------------------------------------------------------------


def mutations_of(written: list[Write]) -> tuple[Mutation, ...]:
    """Each writing line once."""
    found: dict[tuple[str, int], Mutation] = {}
    for write in written:
        site = sites.at_instruction(write.frames[-1], write.operation).site
        found.setdefault((site.file, site.line), Mutation(_in_words(write), site, None, moment=write.moment))
    return tuple(found.values())


def steps_on(storages: set[int | None], since: int) -> tuple[Mutation, ...]:
    """The optimizer steps on these storages since then, each line once."""
    steps = [step for step in log.current().steps if step.moment > since and step.frames]
    places = {step.frames[-1]: step for step in steps if _is_stepped(step, storages)}
    return tuple(Mutation(step.operation, sites.at_instruction(place).site) for place, step in places.items())


def _is_stepped(step: log.Step, storages: set[int | None]) -> bool:
    parameters = (reference() for reference in step.parameters)
    return any(parameter is not None and storage_of(parameter) in storages for parameter in parameters)


def _in_words(write: Write) -> str:
    """The operation. For what DDP does inside its forward, its purpose."""
    return SENT if _is_broadcast(write) else write.operation


def _is_broadcast(write: Write) -> bool:
    inside = [code.co_filename for code, _ in write.frames[:-1]]
    return write.operation == hidden_writes.PRESERVED and any(name.endswith(_DDP) for name in inside)


_DDP = os.path.join("torch", "nn", "parallel", "distributed.py")


def target_of(write: Write, by_data: bool = False) -> str | None:
    """What the user calls the written tensor. `by_data`: only if the source says `name.data`, the tensor's own."""
    found = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    node = found
    while isinstance(node, ast.Attribute) and node.attr == "data":  # another name for the same memory
        node = node.value
    if node is None or (by_data and (node is found or sites.complexity_of_name(node) is None)):
        return None
    return ast.unparse(node)


def reset() -> None:
    """Starts to sample every line from the beginning."""
    hidden_writes.reset()
    running.clear()
    _late.clear()
    reporting.reset()
