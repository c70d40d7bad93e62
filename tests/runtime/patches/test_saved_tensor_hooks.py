"""What saved tensors of torch before 2.10 do not tell is found out in another way: the newer ones are the truth."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import outplace
from outplace.runtime.locate import graph
from outplace.runtime.patches import saved_tensor_hooks

TELLS = saved_tensor_hooks.TELLS


@pytest.fixture(autouse=True)
def _older_torch(monkeypatch):
    monkeypatch.setattr(saved_tensor_hooks, "TELLS", False)


class Hooks(saved_tensors_hooks):
    def __init__(self):
        super().__init__(lambda tensor: tensor, lambda kept: kept)


@pytest.mark.skipif(not TELLS, reason="there is no truth to compare with")
def test_the_hooks_of_each_node():
    x = torch.rand(3, requires_grad=True)
    with outplace.watch():
        made = [x.exp()]
        for _ in range(3):  # one after the other, and within each other
            with Hooks():
                made.append(made[-1].exp())
                with Hooks():
                    made.append(made[-1].exp())
                with Hooks(), Hooks():
                    made += [made[-1].exp(), made[-1].sin()]
                made.append(made[-1].exp())
            made.append(made[-1].exp())
        nodes = [tensor.grad_fn for tensor in made]
        raw = [next(graph.raw_saved(node)) for node in nodes]
        truth = [one.unpack_hook for one in raw]
        assert [saved_tensor_hooks.hook_of(node, one) for node, one in zip(nodes, raw, strict=True)] == truth
        assert len(set(truth)) == 3 * 3 + 1 and truth[0] is truth[-1] is None


def test_hooks_whose_graph_is_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(saved_tensor_hooks, "_most", 20)
    x = torch.rand(3, requires_grad=True)
    with outplace.watch():
        with Hooks():
            kept = x.sin()
        for _ in range(50):
            with Hooks():
                x.sin()
        assert len(saved_tensor_hooks._spans) <= 22
        assert saved_tensor_hooks.hook_of(kept.grad_fn, None) is not None


def test_a_block_is_not_run_by_a_look_at_it():
    calls = []

    def block(x):
        calls.append(len(calls))
        return x.sin().exp()

    x, scale = torch.rand(3, requires_grad=True), torch.rand(3)
    with outplace.watch() as watched:
        loss = (checkpoint(block, x, use_reentrant=False) * scale).sum()
        scale.data.mul_(2)
        loss.backward()
    assert calls == [0, 1]
    (found,) = watched.diagnoses
    assert found.kind == "silent-data" and found.tensor.name == "scale"


def test_the_argument_of_a_block():
    x = torch.rand(3)
    weight = torch.rand(3, requires_grad=True)
    with outplace.watch() as watched:
        loss = checkpoint(lambda x: (x * weight).exp(), x, use_reentrant=False).sum()
        x.data.mul_(2)
        loss.backward()
    (found,) = watched.diagnoses
    assert found.kind == "silent-data" and found.tensor.name == "x"
