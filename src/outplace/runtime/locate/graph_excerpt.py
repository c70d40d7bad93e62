"""The part of the autograd graph that explains a bug, for drawing: a few nodes, however large the graph is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any

from outplace.model import Graph, GraphEdge, GraphNode, Mutation, Site
from outplace.runtime.locate import graph, names
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.locate.writers import place_of

_SAVERS = 3
_WRITES = 3
_FIRST, _LAST = 2, 4
"""How many nodes of a long path are kept at its beginning, where backward starts, and at its end."""
_INPUTS = 4
_LOOKED_AT = 20_000
_NODES_OF_A_WRITE = 4
"""An item assignment makes up to this many nodes. The tensor's history keeps one of them."""


class Surroundings:
    """The graph below some roots. It is read once, when the first bug needs it."""

    def __init__(self, roots: Sequence[Any], stack: Sequence[FrameType]) -> None:
        self._roots, self._stack = roots, stack
        self._nearer: dict[Any, Any] = {}
        """Each node with the node before it on the shortest path from a root."""

    def of(self, savers: Iterable[Any], mutations: Sequence[Mutation]) -> Graph | None:
        """The paths from a root to the nodes that saved the tensor, and to the nodes that its writes made."""
        if not self._nearer:
            self._nearer = _shortest_ways(self._roots)
        kept_by = list({place_of(node): node for node in reversed(list(savers)) if node in self._nearer}.values())
        kept_by = kept_by[::-1][:_SAVERS]  # the newest of each line: a loop saves in every iteration
        if not kept_by:
            return None
        saver, written_by = kept_by[0], list(self._made_by(mutations[-_WRITES:]))
        ways = [_back(self._nearer, node) for node in (*kept_by, *written_by)]
        ways += [
            way for node in written_by for way in _way_between(node, lambda one: one is saver, graph.age_of(saver))
        ]
        shown = dict.fromkeys(node for way in ways for node in _ends(way))
        shown.update(dict.fromkeys(following for following, _ in saver.next_functions[:_INPUTS] if following))
        for way in _way_between(saver, _is_leaf):
            ways.append(way)
            shown.update(dict.fromkeys(way if len(way) <= _FIRST + 3 else [*way[: _FIRST + 1], way[-1]]))
        return Graph(tuple(self._drawn(list(shown), ways)), len(self._nearer))

    def _made_by(self, mutations: Sequence[Mutation]) -> Iterator[Any]:
        """The nodes that in-place operations left in the graph."""
        for mutation in mutations:
            if mutation.moment is None or mutation.site is None:
                continue
            numbers = range(mutation.moment, mutation.moment + _NODES_OF_A_WRITE)
            makers = [node for node in self._nearer if graph.number_of(node) in numbers]
            for node in sorted(makers, key=graph.age_of):
                site = _site(node)
                if site is not None and (site.file, site.line) == (mutation.site.file, mutation.site.line):
                    yield node
                    break

    def _drawn(self, shown: list[Any], ways: list[list[Any]]) -> Iterator[GraphNode]:
        index = {node: place for place, node in enumerate(shown)}
        edges: dict[Any, dict[int, int]] = {node: {} for node in shown}
        for way in ways:
            places = [place for place, node in enumerate(way) if node in index]
            for place, following in pairwise(places):
                edges[way[place]].setdefault(index[way[following]], following - place - 1)
        for node in shown:
            for following, _ in node.next_functions:
                if following in index:
                    edges[node][index[following]] = 0
            inputs = tuple(GraphEdge(to, skipped) for to, skipped in edges[node].items())
            name = node.name().removeprefix("torch::autograd::")
            yield GraphNode(name, graph.number_of(node), _site(node), inputs, self._leaf(node))

    def _leaf(self, node: Any) -> str | None:
        """What the user calls the leaf whose gradient this node accumulates."""
        return names.name_in_frames(node.variable, self._stack) if _is_leaf(node) else None


def _shortest_ways(roots: Sequence[Any]) -> dict[Any, Any]:
    nearer: dict[Any, Any] = dict.fromkeys(roots)
    waiting = deque(nearer)
    while waiting:
        node = waiting.popleft()
        for following, _ in node.next_functions:
            if following is not None and following not in nearer:
                nearer[following] = node
                waiting.append(following)
    if len(nearer) > graph.MOST_NODES:
        graph.keep_from_recursion(roots)
    return nearer


def _way_between(start: Any, is_end: Callable[[Any], bool], oldest: int = -1) -> list[list[Any]]:
    """The shortest path from a node to an older one; empty if there is none, or if the graph is very large."""
    nearer: dict[Any, Any] = {start: None}
    waiting = deque([start])
    while waiting and len(nearer) < _LOOKED_AT:
        node = waiting.popleft()
        if is_end(node):
            return [_back(nearer, node)]
        for following, _ in node.next_functions:
            if following is not None and following not in nearer and graph.age_of(following) >= oldest:
                nearer[following] = node
                waiting.append(following)
    return []


def _back(nearer: dict[Any, Any], node: Any) -> list[Any]:
    """The path that led to a node, from its beginning."""
    way = [node]
    while nearer[way[-1]] is not None:
        way.append(nearer[way[-1]])
    return way[::-1]


def _is_leaf(node: Any) -> bool:
    return bool(node.name().endswith("AccumulateGrad"))


def _ends(way: list[Any]) -> list[Any]:
    return way if len(way) <= _FIRST + _LAST + 1 else [*way[:_FIRST], *way[-_LAST:]]


def _site(node: Any) -> Site | None:
    return made_at(place_of(node), node.name())
