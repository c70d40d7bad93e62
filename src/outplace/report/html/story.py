"""What happened, in the program's own order: the nodes of the graph, the writes that cut in, and the backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from outplace.knowledge import nodes
from outplace.model import Diagnosis, GraphNode, Mutation, SavedTensor, Site, is_refused, is_silent
from outplace.report import words

Role = Literal["node", "leaf", "gap", "made", "saved", "overwritten", "raised"]
Touch = Literal["", "made", "keeps", "writes", "refused", "wants"]
"""What an event does to the memory of the tensor."""

MOST_WRITES = 8
_NODES_OF_A_WRITE = 4
_LATE, _LAST = 1e17, 1e18
"""After all nodes: writes of which no more is known, and the end of the story."""


@dataclass(frozen=True)
class Event:
    """One row. `node` is its number in the graph, `inputs` are the nodes that the gradient goes on to from there."""

    role: Role
    title: str
    detail: str = ""
    site: Site | None = None
    moment: float = -1.0
    touch: Touch = ""
    version: str = ""
    node: int | None = None
    inputs: tuple[int, ...] = ()
    made: str = ""
    """PyTorch's name of the node, which is shown on hover."""


def tell(diagnosis: Diagnosis) -> list[Event]:
    """All events, the first one first."""
    events = list(_graph(diagnosis))
    made_at = diagnosis.made_at
    if made_at and diagnosis.saved_by is None:
        name = diagnosis.tensor.name or "the tensor"
        events.append(Event("made", name.split("[")[0], "made here", made_at, -2.0, "made"))
    for saved in (diagnosis.saved_by, *diagnosis.also_saved_by):
        if saved is not None:
            _keep(events, saved, is_first=saved is diagnosis.saved_by)
    if diagnosis.kept_at and diagnosis.saved_by is not None:
        moment = -0.4 if diagnosis.saved_by.number is None else diagnosis.saved_by.number + 0.6
        name = diagnosis.tensor.name or "the tensor"
        events.append(Event("overwritten", name, "kept, with its graph, for the next step", diagnosis.kept_at, moment))
    for change in diagnosis.mutations[-MOST_WRITES:]:
        _write(events, words.since(change, diagnosis.saved_by), diagnosis)
    earlier = len(diagnosis.mutations) - MOST_WRITES
    if earlier > 0:
        first = min((event.moment for event in events if event.touch == "writes"), default=_LAST)
        events.append(Event("gap", f"{earlier} earlier writing lines", moment=first - 0.1))
    events += _end(diagnosis)
    return sorted(events, key=lambda event: event.moment)


def version(number: int | None) -> str:
    """`v3`, or nothing where it is not known."""
    return "" if number is None else f"v{number}"


# -- the graph ---------------------------------------------------------------------------------------------------------


def _graph(diagnosis: Diagnosis) -> Iterator[Event]:
    """Its nodes; those that were left out become an event of their own between the two that they connect."""
    drawn = diagnosis.graph.nodes if diagnosis.graph else ()
    count = len(drawn)
    for index, node in enumerate(drawn):
        inputs = []
        for edge in node.inputs:
            inputs.append(edge.to if not edge.skipped else count)
            if edge.skipped:
                title = "1 more node" if edge.skipped == 1 else f"{edge.skipped:,} more nodes"
                yield Event("gap", title, moment=_moment(drawn[edge.to]) + 0.5, node=count, inputs=(edge.to,))
                count += 1
        yield Event(
            "leaf" if _is_leaf(node) else "node",
            (node.leaf or "a leaf") if _is_leaf(node) else words.node(node.node),
            "waits for its gradient" if _is_leaf(node) else "",
            node.site,
            _moment(node),
            node=index,
            inputs=tuple(inputs),
            made="" if _is_leaf(node) else node.node,
        )


def _is_leaf(node: GraphNode) -> bool:
    return node.node.endswith("AccumulateGrad")


def _moment(node: GraphNode) -> float:
    return -1.0 if node.number is None else float(node.number)


# -- the tensor --------------------------------------------------------------------------------------------------------


def _keep(events: list[Event], saved: SavedTensor, is_first: bool) -> None:
    phrase = nodes.saved_phrase(saved.node, saved.saved_as) if saved.saved_as else "it"
    title, detail, kept = words.node(saved.node), f"keeps {phrase}", version(saved.version)
    for place, event in enumerate(events):
        if event.role == "node" and saved.number is not None and event.moment == saved.number:
            role: Role = "saved"
            events[place] = replace(event, role=role, title=title, detail=detail, touch="keeps", version=kept)
            return
    if is_first:
        moment = -0.5 if saved.number is None else float(saved.number)
        events.append(Event("saved", title, detail, saved.site, moment, "keeps", kept, made=saved.node))


def _write(events: list[Event], change: Mutation, diagnosis: Diagnosis) -> None:
    title, left = words.operation(change.operation), version(change.version)
    if is_refused(diagnosis) and change.version is None:
        events.append(Event("overwritten", title, "refused by PyTorch", change.site, _LAST, "refused"))
        return
    detail = "changes its memory unseen" if words.is_unseen(diagnosis, change) else "writes its memory"
    if change.count > 1:
        detail = f"{detail} × {change.count}"
    if diagnosis.kind == "detached":
        detail, left = "cuts it out of the graph", ""
    if diagnosis.kind == "freed":
        detail = "frees what it has used"
    for place, event in enumerate(events):
        if event.role == "node" and _is_node_of(event, change):
            written = Event("overwritten", title, detail, change.site, event.moment, "writes", left)
            events[place] = replace(written, node=event.node, inputs=event.inputs, made=event.made)
            return
    moment = _LATE if change.moment is None else change.moment - 0.25
    events.append(Event("overwritten", title, detail, change.site, moment, "writes", left))


def _is_node_of(event: Event, change: Mutation) -> bool:
    """Is this the node that an in-place operation has left in the graph?"""
    if event.site is None or change.site is None:
        return False
    same_line = (event.site.file, event.site.line) == (change.site.file, change.site.line)
    if change.moment is None:  # it is known by that node alone
        return same_line
    return same_line and change.moment <= event.moment < change.moment + _NODES_OF_A_WRITE


def _end(diagnosis: Diagnosis) -> Iterator[Event]:
    raised = diagnosis.raised_at
    if is_refused(diagnosis) and any(change.version is None for change in diagnosis.mutations):
        return  # the refused operation is the end
    if is_silent(diagnosis):
        if diagnosis.saved_by is not None:
            yield Event("raised", "backward", "reads the changed values", raised, _LAST, "wants")
    elif is_refused(diagnosis):
        yield Event("raised", "refused", "by PyTorch, where it is used", raised, _LAST, "wants")
    elif raised is not None or diagnosis.saved_by is not None:
        wanted = version(diagnosis.saved_by.version) if diagnosis.saved_by else ""
        old = {"detached": "its history", "freed": "what is freed"}.get(diagnosis.kind, "the old values")
        yield Event("raised", "backward", f"needs {wanted or old}", raised, _LAST, "wants", wanted)
