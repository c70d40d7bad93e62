"""Diagnoses a backward that enters a part of the graph which an earlier backward has freed.

This needs no extra recording. The failed graph shows which nodes are freed, their numbers show how old they are, and
the record has the moments of the backwards. A tensor was kept at the edge from a node of this step to a node of an
earlier step: the backward of that step freed what lies behind the edge.

Backward runs the nodes of a thread from the newest to the oldest and frees each one after it ran. So some freed nodes
may have been freed by this backward. Certainly freed earlier are the oldest, and all that are older than an intact one.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from outplace.files import naming
from outplace.knowledge.errors import Match
from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import describe_saved
from outplace.model import Diagnosis, Fix, Mutation, SavedTensor, Site, Tensor
from outplace.runtime.errors import freed_fixes, freed_names, saved_error
from outplace.runtime.errors.freed_fixes import Story
from outplace.runtime.errors.freed_names import Kept
from outplace.runtime.locate import graph, names, opaque_nodes, sites, writers
from outplace.runtime.locate.graph_excerpt import Surroundings
from outplace.runtime.locate.savers import saver
from outplace.runtime.record import log
from outplace.runtime.record.log import Backward

_FREED = "a second time"
_MOST = 3
"""At most this many kept tensors are reported. A model may keep hundreds of them in one list."""


@dataclass(frozen=True)
class Crossing:
    """An edge from this step into the freed part: `user` used the result of `kept`, and `freed` is at or below it."""

    user: Any
    kept: Any
    freed: Any
    saved_as: str


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """One diagnosis for each tensor that was kept. `frame` is torch's; its arguments hold the roots."""
    roots, nodes = _roots_and_nodes(frame)
    stack = names.own_frames(error.__traceback__, frame)
    raised = log.frames_to_own_code(frame.f_back)
    failure = _Failure(error, match, raised, stack, Surroundings(roots, stack), nodes)
    earlier = _earlier(raised)
    freed = _freed(nodes, str(error))
    if not freed or not earlier or any(writers.is_ambiguous(node) for node in freed):
        return [failure.unexplained()]
    below = _newest_freed_below(nodes, freed)
    certain = _surely_before(nodes, freed, keeps_graph=_keeps_graph(frame))
    since = [backward for backward in earlier if backward.moment > graph.age_of(min(freed, key=graph.age_of))]
    for moment in _likely_moments(since, raised, newest=max(map(graph.age_of, nodes))):
        sure = set(_crossings(nodes, below, moment, certain))
        if sure:
            edges = _crossings(nodes, below, moment, set(freed))
            crossings = [Crossing(user, kept, below[kept], freed[below[kept]]) for user, kept in edges]
            before = [crossing for crossing in crossings if (crossing.user, crossing.kept) in sure]
            return failure.crossed(before, [crossing for crossing in crossings if crossing not in before])
    return failure.from_one_forward(roots, since, freed)


# -- reading the graph -------------------------------------------------------------------------------------------------


def _roots_and_nodes(frame: FrameType) -> tuple[list[Any], list[Any]]:
    """The roots of the failed backward, and the nodes that it needs."""
    outputs, inputs = saved_error.arguments(frame)
    roots = graph.roots_of(outputs)
    needed = graph.needed_for(roots, inputs)
    return roots, [node for node in graph.walk(roots) if needed is None or node in needed]


def _likely_moments(since: list[Backward], raised: tuple[log.Instruction, ...], newest: int) -> list[int]:
    """The moments of earlier backwards: the last one of the same call first, then from the newest to the oldest.

    Those after the newest node are left out: nothing was computed since.
    """
    same_call = [backward for backward in since if backward.frames == raised]
    moments = dict.fromkeys(backward.moment for backward in (*same_call[-1:], *reversed(since)))
    return [moment for moment in moments if moment <= newest]


def _earlier(raised: tuple[log.Instruction, ...]) -> list[Backward]:
    """The backwards of this thread before the failed one. Those inside it come after it."""
    backwards = log.current().backwards
    own = next((index for index in reversed(range(len(backwards))) if backwards[index].frames == raised), None)
    return [backward for backward in backwards[: -1 if own is None else own] if not _says_to_keep(backward)]


def _says_to_keep(backward: Backward) -> bool:
    """Does the call pass `retain_graph=True`, or `create_graph=True`, which implies it?"""
    call = sites.at_instruction(backward.frames[-1]).node if backward.frames else None
    said = call.keywords if isinstance(call, ast.Call) else []
    values = {keyword.arg: keyword.value.value for keyword in said if isinstance(keyword.value, ast.Constant)}
    return bool(values.get("retain_graph", values.get("create_graph")))


def _keeps_graph(frame: FrameType) -> bool:
    args = frame.f_locals.get("args", ())
    return len(args) > 1 and bool(args[1])


def _freed(nodes: list[Any], message: str) -> dict[Any, str]:
    """The nodes whose saved tensors are freed, each with the name of one of them."""
    found = {node: saved_as for node in nodes for saved_as in graph.freed_slots(node)[:1]}
    if not found:  # nodes that do not expose what they save can only be run
        found = dict.fromkeys(opaque_nodes.failing_alone(nodes, message), "")
    return found


def _newest_freed_below(nodes: list[Any], freed: dict[Any, str]) -> dict[Any, Any]:
    """For each node, the newest freed node among itself and all nodes below it."""
    below: dict[Any, Any] = {}
    for node in sorted(nodes, key=graph.age_of):  # the nodes below a node are older
        ways = [below[following] for following, _ in node.next_functions if following in below]
        if node in freed:
            below[node] = node
        elif ways:
            below[node] = max(ways, key=graph.age_of)
    return below


def _surely_before(nodes: list[Any], freed: dict[Any, str], keeps_graph: bool) -> set[Any]:
    """The nodes that an earlier backward freed, not this one."""
    if keeps_graph:
        return set(freed)
    oldest = min(freed, key=graph.age_of)
    intact = max((graph.age_of(node) for node in nodes if node not in freed and any(graph.held(node))), default=-1)
    return {oldest, *(node for node in freed if graph.age_of(node) < intact)}


def _crossings(nodes: list[Any], below: dict[Any, Any], moment: int, certain: set[Any]) -> list[tuple[Any, Any]]:
    """The edges from nodes made after a moment to older nodes above freed ones, newest first."""
    found = []
    leads: dict[Any, bool] = {}
    for node in sorted(nodes, key=graph.age_of):
        following = [following for following, _ in node.next_functions if following is not None]
        leads[node] = node in certain or any(leads.get(item, False) for item in following)
        if graph.age_of(node) >= moment:
            found += [
                (node, item) for item in following if leads.get(item) and item in below and graph.age_of(item) < moment
            ]
    return found[::-1]


# -- the diagnosis -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """One way into the freed graph: the story, the node whose result was kept, and the freed nodes below it."""

    story: Story
    tensor: Tensor
    node: Any
    freed: dict[Any, str]
    freed_by: list[Backward]
    kept: Kept | None = None


@dataclass(frozen=True)
class _Failure:
    """One failed backward. `raised` are the frames from torch's function to the user's line."""

    error: BaseException
    match: Match
    raised: tuple[log.Instruction, ...]
    stack: list[FrameType]
    around: Surroundings
    nodes: list[Any]

    def crossed(self, crossings: list[Crossing], perhaps: list[Crossing]) -> list[Diagnosis]:
        """Tensors from earlier steps that this step used. `perhaps` are edges to nodes that may have been freed now."""
        groups = self._groups(crossings)
        others = [members[0][1] for key, members in self._groups(perhaps).items() if key not in groups]
        found = [self._diagnosis(self._case(members)) for members in list(groups.values())[:_MOST]]
        also = ", ".join(dict.fromkeys(kept.tensor.name for kept in others if kept.tensor.name))
        note = f"Also from an earlier step, and freed with it unless that step's loss left it out: {also}."
        return [replace(found[0], notes=(*found[0].notes, note)), *found[1:]] if also else found

    def _groups(self, crossings: list[Crossing]) -> dict[Any, list[tuple[Crossing, Kept]]]:
        """The edges, grouped by the kept tensor. A loop makes many edges between two lines; only the first counts."""
        groups: dict[Any, list[tuple[Crossing, Kept]]] = {}
        pairs = {(writers.place_of(item.kept), writers.place_of(item.user)): item for item in reversed(crossings)}
        for crossing in reversed(pairs.values()):
            kept = freed_names.find(crossing.kept, crossing.user, set(self.nodes), self.stack)
            groups.setdefault(kept.key, []).append((crossing, kept))
        return groups

    def _case(self, members: list[tuple[Crossing, Kept]]) -> _Case:
        crossing, kept = members[0]
        since = {item.frames: item for item in _earlier(self.raised) if item.moment > graph.age_of(crossing.kept)}
        freed_by = list(since.values())
        if kept.cached:
            story: Story = "cached"
        elif self._ran_again(kept, min(backward.moment for backward in freed_by)):
            story = "carried"
        else:
            story = "once" if self.raised in since else "shared"
        freed = {one.freed: one.saved_as for one, _ in members}
        return _Case(story, kept.tensor, crossing.kept, freed, freed_by, kept)

    def _ran_again(self, kept: Kept, moment: int) -> bool:
        """Did the statement that computed it run again after the first backward that may have freed it?"""
        if kept.computed is None or kept.computed.statement is None:
            return False
        places = {writers.place_of(node) for node in self.nodes if graph.age_of(node) >= moment}
        marks = log.current()
        places.update(marks.places[bisect_left(marks.starts, moment) :])
        located = (sites.at_place(place) for place in places)
        return any(item is not None and item.statement is kept.computed.statement for item in located)

    def from_one_forward(self, roots: list[Any], since: list[Backward], freed: dict[Any, str]) -> list[Diagnosis]:
        """The whole graph is older than the backward that freed it: two losses of one forward, or one loss twice."""
        freed_by = list({backward.frames: backward for backward in since}.values())
        gone = freed_names.graph_of_earlier(freed_by, self.stack)
        same = any(root in gone for root in roots)
        edges = [
            (node, following)
            for node in self.nodes
            for following, _ in node.next_functions
            if node not in gone and following in gone and graph.number_of(following) is not None
        ]
        below = _newest_freed_below(list(gone), {node: name for node, name in freed.items() if node in gone})
        found = [Crossing(user, kept, below[kept], freed[below[kept]]) for user, kept in edges if kept in below]
        if found and not same:
            return self.crossed(found, [])
        oldest = min(freed, key=graph.age_of)  # of the freed nodes only this one was certainly freed earlier
        tensor = Tensor(freed_names.receiver(self.raised), *freed_names.form(roots[0])) if same else Tensor(None)
        return [self._diagnosis(_Case("same" if same else "shared", tensor, oldest, {oldest: freed[oldest]}, freed_by))]

    def _diagnosis(self, case: _Case) -> Diagnosis:
        saved_by, *also = dict.fromkeys(saver(node, saved_as) for node, saved_as in case.freed.items())
        freed_at = [sites.at_instruction(item.frames[-1]).site for item in case.freed_by if item.frames]
        known = len(freed_at) == 1 == len(case.freed_by)
        stepped, stepped_below = _steps_since(case.node)
        cut = freed_fixes.for_kept(case.kept) if case.kept and case.story == "carried" else ()
        return replace(
            self.unexplained(),
            tensor=case.tensor,
            why=_why(case.story, case.tensor.name, saved_by),
            saved_by=saved_by,
            also_saved_by=tuple(also),
            mutations=(Mutation("backward", freed_at[0], moment=case.freed_by[0].moment),) if known else (),
            kept_at=case.kept.kept_at if case.kept and case.story != "shared" else None,
            used_at=case.kept.used_at if case.kept else None,
            fixes=(*cut, *freed_fixes.advice(case.story, case.tensor.name, cut, bool(stepped), bool(stepped_below))),
            notes=tuple(_notes(case.story, freed_at if not known else [], stepped_below)),
            graph=self.around.of(case.freed, ()),
        )

    def unexplained(self) -> Diagnosis:
        """The diagnosis from the message alone."""
        kind = BY_NAME[self.match.entry.kind]
        return Diagnosis(
            kind=kind.name,
            code=kind.code,
            error=str(self.error),
            tensor=Tensor(None),
            why=self.match.cause,
            raised_at=sites.at_instruction(self.raised[-1]).site if self.raised else None,
            fixes=tuple(Fix(remedy, "suggestion") for remedy in self.match.entry.remedies),
        )


def _why(story: Story, name: str | None, saved_by: SavedTensor) -> str:
    keeps = describe_saved(saved_by.node, saved_by.saved_as) if saved_by.saved_as else "Its graph keeps values"
    freed = f"{keeps} for its backward, and a backward frees what it has used."
    if story == "carried":
        return (
            f"{freed} {name or 'Its result'} outlived the step it was computed in, with its graph; the next step has "
            "used it, so this backward goes on into the graph of the step before, which is freed."
        )
    if story == "once":
        return (
            f"{freed} {name or 'Its result'} was computed once and is used in every round: an earlier round's backward "
            "has freed its graph, and this one needs it again."
        )
    if story == "cached":
        return (
            f"{freed} `parametrize.cached()` keeps {name or 'a weight'} as it was first computed: an earlier round's "
            "backward has freed its graph, and this one needs it again."
        )
    if story == "same":
        return f"{freed} {name or 'This loss'} has gone backward before, and was not computed again since."
    if name is None:
        return f"{freed} This loss shares a part of its graph with one that has gone backward before."
    return f"{freed} {name} is part of two losses: the first one's backward has freed what both need."


def _notes(story: Story, freed_at: list[Site], stepped_below: str | None) -> Iterable[str]:
    if freed_at:
        spots = ", ".join(dict.fromkeys(naming.place(site.file, site.line) for site in freed_at))
        yield f"Which backward freed it is not known: it was one of those at {spots}."
    if stepped_below is not None:
        yield (
            f"retain_graph=True is no way out: {stepped_below} has since changed, in place, weights that it was "
            "computed with, and a backward that needs their old values fails with the version error of OUT202."
        )
    elif story == "carried":
        yield (
            "retain_graph=True is no way out: each backward would go through all earlier steps again, slower and "
            "larger every time, and with an optimizer step between it would fail with the version error of OUT202."
        )


def _steps_since(node: Any) -> tuple[str | None, str | None]:
    """The last optimizer step since a node was made, and the last one that changed its inputs."""
    leaves = {id(leaf.variable) for leaf in graph.walk([node]) if hasattr(leaf, "variable")}
    last: str | None = None
    for step in reversed(log.current().steps):
        if step.moment <= graph.age_of(node):
            break
        if step.frames:
            site = sites.at_instruction(step.frames[-1]).site
            place = f"{step.operation} at {naming.place(site.file, site.line)}"
            last = last or place
            if any(before != after and id(parameter()) in leaves for parameter, before, after in step.versions()):
                return last, place
    return last, None
