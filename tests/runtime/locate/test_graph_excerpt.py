"""The part of a graph that a report draws, held against the graph itself."""

from __future__ import annotations

import sys
from collections import deque

import pytest

torch = pytest.importorskip("torch")

from outplace.model import Graph, Mutation, Site  # noqa: E402
from outplace.runtime.locate import graph_excerpt  # noqa: E402
from outplace.runtime.locate.graph_excerpt import Surroundings  # noqa: E402

MOST_NODES = 40


def distances(root, target):
    """How far each node is from the root, by a walk of our own."""
    far = {root: 0}
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for following, _ in node.next_functions:
            if following is not None and following not in far:
                far[following] = far[node] + 1
                waiting.append(following)
    return far[target], len(far)


def drawn_distance(graph: Graph, number: int) -> int:
    """How far the node with this number is from the first one, by the edges that are drawn."""
    far = {0: 0}
    waiting = deque([0])
    while waiting:
        index = waiting.popleft()
        for edge in graph.nodes[index].inputs:
            steps = far[index] + 1 + edge.skipped
            if steps < far.get(edge.to, 1 << 30):
                far[edge.to] = steps
                waiting.append(edge.to)
    return min(far[index] for index, node in enumerate(graph.nodes) if node.number == number)


@pytest.mark.parametrize("length", [0, 1, 5, 8, 40, 10_000])
def test_the_way_from_the_root_to_the_saver_is_as_long_as_it_is(length):
    w = torch.ones(2, requires_grad=True)
    h = (w * 2).exp()
    x = h
    for _ in range(length):
        x = x * 3
    loss = x.sum()
    graph = Surroundings([loss.grad_fn], []).of([h.grad_fn], ())
    steps, size = distances(loss.grad_fn, h.grad_fn)
    assert graph.size == size
    assert len(graph.nodes) <= MOST_NODES
    assert graph.nodes[0].node == "SumBackward0"
    assert drawn_distance(graph, h.grad_fn._sequence_nr()) == steps


def test_a_wide_graph_stays_small():
    w = torch.ones(2, requires_grad=True)
    h = w.exp()
    loss = torch.stack([(h * n).sum() for n in range(3_000)]).sum()
    graph = Surroundings([loss.grad_fn], []).of([h.grad_fn], ())
    assert len(graph.nodes) <= MOST_NODES
    assert graph.size > 6_000


def test_it_reaches_down_to_a_leaf_by_its_name():
    net = torch.nn.Linear(2, 2)
    h = net(torch.ones(1, 2)).exp()

    graph = Surroundings([h.sum().grad_fn], [sys._getframe()]).of([h.grad_fn], ())
    assert {node.leaf for node in graph.nodes if node.node == "AccumulateGrad"} <= {"net.weight", "net.bias"}
    assert any(node.leaf for node in graph.nodes)


def test_the_node_of_a_write_is_drawn_with_its_way_to_the_saver(monkeypatch):
    w = torch.ones(2, requires_grad=True)
    h = w.exp()
    y = h * 2
    z = y + 1
    loss = h.sum() + z.sum()  # the shortest way to h does not lead through z
    here = Site("train.py", 1, 1, 0, 6, "f", "z += 1")
    monkeypatch.setattr(graph_excerpt, "made_at", lambda place, node: here if node == z.grad_fn.name() else None)
    graph = Surroundings([loss.grad_fn], []).of([h.grad_fn], [Mutation("add_", here, 1, moment=graph_number(z))])
    drawn = {node.number: node for node in graph.nodes}
    (on,) = [graph.nodes[edge.to] for edge in drawn[graph_number(z)].inputs]
    assert on.number == graph_number(y)
    assert [graph.nodes[edge.to].number for edge in on.inputs] == [graph_number(h)]


def graph_number(tensor):
    return tensor.grad_fn._sequence_nr()


def test_a_saver_that_is_not_in_the_graph_draws_nothing():
    w = torch.ones(2, requires_grad=True)
    assert Surroundings([w.sum().grad_fn], []).of([w.exp().grad_fn], (Mutation("add_", None, 1),)) is None
