"""Which thread made a node: compared with what each thread writes down of its own nodes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from outplace.runtime.record import node_threads  # noqa: E402


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def build(made: list[tuple[int, torch.Tensor]], leaf: torch.Tensor) -> None:
    ask = node_threads.number_of_thread()
    assert ask is not None
    results = [leaf * 2, Twice.apply(leaf), leaf.clone().add_(1), checkpoint(torch.exp, leaf, use_reentrant=True)]
    made += [(ask(), result) for result in results]


def test_each_node_knows_its_thread():
    if node_threads.number_of_thread() is None:
        pytest.skip("torch's library is not found here")
    assert node_threads.known()
    made: list[tuple[int, torch.Tensor]] = []
    leaf = torch.ones(3, requires_grad=True)
    build(made, leaf)
    for _ in range(5):  # Python gives the same identity to several of them
        thread = threading.Thread(target=build, args=(made, leaf))
        thread.start()
        thread.join()
    together = [threading.Thread(target=build, args=(made, leaf)) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert len({number for number, _ in made}) == 10
    assert [node_threads.thread_of(result.grad_fn) for _, result in made] == [number for number, _ in made]


def test_a_node_whose_results_are_gone():
    """Some versions of torch keep the node of a Function as long as its `grad_fn`, some only as long as its results."""
    ask = node_threads.number_of_thread()
    if ask is None:
        pytest.skip("torch's library is not found here")
    leaf = torch.ones(3, requires_grad=True)
    alone: list[Any] = [Twice.apply(leaf).grad_fn for _ in range(3)]
    assert {node_threads.thread_of(node) for node in alone} <= {ask(), None}
    assert node_threads.thread_of((leaf * 2).grad_fn) == ask()


def test_nothing_is_known_if_no_place_fits(monkeypatch):
    samples = node_threads._samples()
    wrong = [sample._replace(thread=sample.thread + 1_000_000) for sample in samples]
    assert not list(node_threads._fitting([*wrong, *wrong]))
    monkeypatch.setattr(node_threads, "_layout", lambda: None)
    assert node_threads.thread_of(samples[0].nodes[0]) is None
