"""Data that stays from step to step, and that each step changes in place: bugs and right programs that look alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import outplace
from outplace.runtime.record.snapshots import same_values
from outplace.runtime.silent.operands import frame_of, only_of_itself

STEPS = 3


def start() -> torch.Tensor:
    return torch.tensor([[1.0, 2.0], [3.0, 5.0]])


class Graph:
    """A tensor, an array and what a step makes of them. `expected` computes the same out of place."""

    def __init__(self) -> None:
        self.adj = start()
        self.array = start().numpy()
        self.mean, self.std = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0])
        self.average = start()
        self.labels = torch.tensor([3, 4, 5, 3])

    def self_loops(self):
        self.adj += torch.eye(2)
        return self.adj

    def symmetric(self):
        d = self.adj.sum(1).pow(-0.5)
        self.adj.mul_(d[:, None]).mul_(d[None, :])
        return self.adj

    def standardised(self):
        self.adj.sub_(self.mean).div_(self.std)
        return self.adj

    def over_array(self):
        part = torch.from_numpy(self.array[0:2])
        part.sub_(self.mean).div_(self.std)
        return part * 1.0

    def by_parts(self):
        part = self.adj[0:1]
        part -= self.mean
        return part

    def row_sums(self):
        self.adj /= self.adj.sum(1, keepdim=True)
        return self.adj

    def smoothed(self):
        self.adj.mul_(0.8).add_(0.1)
        return self.adj

    def by_two_views(self):
        part = self.adj[0:1]
        part[:, 0] += 2
        part /= part.max()
        return part

    def clone(self):
        work = self.adj.clone()
        work.sub_(self.mean).div_(self.std)
        return work

    def array_copy(self):
        part = torch.from_numpy(self.array[0:2].copy())
        part.sub_(self.mean).div_(self.std)
        return part

    def refilled(self):
        self.adj.copy_(start())
        self.adj.sub_(self.mean).div_(self.std)
        return self.adj

    def put_back(self):
        self.adj.mul_(self.std)
        shown = self.adj * 1.0
        self.adj.div_(self.std)
        return shown


def running_average(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    graph.average.mul_(0.9).add_(x, alpha=0.1)
    return graph.average


def total(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    graph.average += x
    return graph.average


def decay(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    graph.average *= 0.5
    return graph.average


def prototypes(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    graph.average += x
    graph.average /= graph.average.norm(dim=1, keepdim=True)
    return graph.average


def trained(step):
    """The losses of a few steps, and what was told."""
    w, losses = torch.ones(2, 1, requires_grad=True), []
    with outplace.watch() as watched:
        for _ in range(STEPS):
            loss = (step() @ w).sum()
            loss.backward()
            losses.append(loss.item())
    return losses, [one.code for one in watched.diagnoses]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("self_loops", "OUT336"),
        ("symmetric", "OUT336"),
        ("standardised", "OUT336"),
        ("by_parts", "OUT336"),
        ("smoothed", "OUT336"),
        ("by_two_views", "OUT336"),
        ("over_array", "OUT313"),
    ],
)
def test_a_step_that_normalises_what_the_last_one_has_normalised(name, code):
    losses, codes = trained(getattr(Graph(), name))
    fresh = [trained(getattr(Graph(), name))[0][0] for _ in range(STEPS)]  # each step on data of its own
    assert losses != pytest.approx(fresh)
    assert codes == [code]


@pytest.mark.parametrize("name", ["row_sums", "clone", "array_copy", "refilled", "put_back"])
def test_a_step_that_leaves_the_data_as_it_found_it(name):
    losses, codes = trained(getattr(Graph(), name))
    fresh = [trained(getattr(Graph(), name))[0][0] for _ in range(STEPS)]
    assert losses == pytest.approx(fresh)
    assert codes == []


@pytest.mark.parametrize("update", [running_average, total, decay, prototypes])
def test_state_that_is_meant_to_change_at_each_step(update):
    graph, x = Graph(), torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    assert trained(lambda: update(graph, x))[1] == []


def test_labels_that_each_epoch_shifts():
    graph, w = Graph(), torch.randn(4, 6, requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(2):
            for i in range(0, 4, 2):
                labels = graph.labels[i : i + 2]
                labels -= 1
                torch.nn.functional.cross_entropy(w[:2], labels).backward()
    assert graph.labels.tolist() == [1, 2, 3, 1]
    assert [one.code for one in watched.diagnoses] == ["OUT336"]


def epochs(work) -> tuple[list[float], list[str]]:
    """Two epochs of two batches that are parts of the data. What is left of the data, and what was told."""
    data, w = torch.arange(1.0, 9.0).view(4, 2), torch.ones(2, 1, requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(2):
            for batch in data.split(2):
                (work(batch) @ w).sum().backward()
    return data.flatten().tolist(), [one.code for one in watched.diagnoses]


def masked(batch):
    batch[torch.rand(2, 2) < 0.5] = 0
    return batch


def minus_baseline(batch):
    batch -= torch.rand(2)
    return batch


def masked_clone(batch):
    batch = batch.clone()
    batch[torch.rand(2, 2) < 0.5] = 0
    return batch


def averaged(batch):
    batch.mul_(0.9).add_(torch.rand(2))
    return batch


@pytest.mark.parametrize("work", [masked, minus_baseline])
def test_a_batch_that_is_a_part_of_the_data(work):
    torch.manual_seed(0)
    left, codes = epochs(work)
    assert left != torch.arange(1.0, 9.0).tolist() and codes == ["OUT336"]


def attended(mask_of) -> tuple[bool, list[str]]:
    """Batches of two lengths, two epochs. Is the table of masks as it was, and what was told?"""
    blocked, w = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1), torch.randn(4, 4, requires_grad=True)
    before = blocked.clone()
    padded = [torch.tensor([False] * 4), torch.tensor([True, False, False]), torch.tensor([True, True, False, False])]
    with outplace.watch() as watched:
        for _ in range(2):
            for row in padded:
                length = len(row)
                mask = mask_of(blocked, length)
                mask |= row
                w[:length, :length].masked_fill(mask, -9.0).softmax(1).square().sum().backward()
    return before.equal(blocked), [one.code for one in watched.diagnoses]


def test_a_mask_that_is_a_part_of_a_table_only_grows():
    assert attended(lambda blocked, n: blocked[:n, :n]) == (False, ["OUT336"])
    assert attended(lambda blocked, n: blocked[:n, :n].clone()) == (True, [])


def test_a_batch_of_its_own():
    left, codes = epochs(masked_clone)
    assert left == torch.arange(1.0, 9.0).tolist() and codes == []


def test_a_part_of_a_memory_that_is_averaged():
    assert epochs(averaged)[1] == []


def test_smoothing_the_labels_of_an_array():
    labels, w = np.eye(2, dtype=np.float32), torch.ones(2, 1, requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(3):
            smooth = torch.from_numpy(labels)
            smooth.mul_(0.9).add_(0.05)
            (smooth @ w).sum().backward()
    assert labels[0, 0] < 0.9 and [one.code for one in watched.diagnoses] == ["OUT313"]


def test_a_weight_that_is_trained_by_hand_is_no_data():
    w = torch.tensor([[1.0], [2.0]], requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(STEPS):
            (start() @ w).sum().backward()  # the gradient is the same at each step
            w.data -= 0.1 * w.grad
            w.grad = None
    assert not watched.diagnoses


def test_a_time_that_goes_down_is_no_data():
    t, table = torch.full((3,), 5), torch.randn(6, 2, requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(STEPS):
            torch.nn.functional.embedding(t, table).sum().backward()
            t -= 1
    assert not watched.diagnoses


def follow_the_network(weights, net):
    wrong = (net(start()).argmax(1) == torch.tensor([1, 0])).float()
    weights *= torch.exp(0.5 * wrong + torch.tensor([0.1, 0.2]))
    weights /= weights.sum()


def follow_a_table(weights, net):
    wrong = torch.tensor([1.0, 0.0])
    weights *= torch.exp(0.5 * wrong + torch.tensor([0.1, 0.2]))
    weights /= weights.sum()


@pytest.mark.parametrize(("change", "codes"), [(follow_the_network, []), (follow_a_table, ["OUT336"])])
def test_weights_of_samples_that_follow_a_network(change, codes):
    """In boosting they grow where the network is wrong. Nothing else may rescale them at each step."""
    net, weights = torch.nn.Linear(2, 2), torch.tensor([0.3, 0.7])
    with outplace.watch() as watched:
        for _ in range(STEPS):
            (weights * net(start()).square().sum(1)).sum().backward()
            with torch.no_grad():
                change(weights, net)
    assert [one.code for one in watched.diagnoses] == codes


def test_what_a_statement_computes_with(monkeypatch):
    seen = {}

    class Listener:
        def on_plain_write(self, write, tensor):
            frame = frame_of(write)
            if frame is not None and frame.f_code is writes.__code__:
                seen[frame.f_lineno] = only_of_itself(write, tensor, frame)

    from outplace.runtime.record.events import events

    def writes(x, other):
        degree = x.sum(1, keepdim=True)
        scaled = other * 2
        x /= degree
        x += torch.eye(len(x), device=x.device)
        x /= scaled
        x *= x.grad if x.grad is not None else 1

    with outplace.watch():
        undo = events.subscribe([Listener()])
        writes(start(), torch.ones(2, 2))
        undo()
    assert list(seen.values()) == [True, True, False, False]


def test_numpy_memory_at_the_same_address_is_no_proof():
    w = torch.ones(2, 1, requires_grad=True)
    with outplace.watch() as watched:
        for _ in range(STEPS):
            array = np.array([[1.0, 2.0], [3.0, 5.0]], dtype=np.float32)  # often where the last one was
            x = torch.from_numpy(array)
            x.sub_(1.0).div_(2.0)
            (x @ w).sum().backward()
            del x, array
    assert not watched.diagnoses


@pytest.mark.filterwarnings("error")
def test_complex_values_are_compared_whole():
    one = torch.tensor([1.0 + 2.0j, 3.0])
    assert same_values(one, one.clone())
    assert not same_values(one, one.conj())
    assert same_values(one.real, one.real.to(torch.complex64))
