"""Rows of CUDA tensors: set and added as a loop over the entries of the index does it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from outplace import at

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SHAPES = {
    "few": ((50, 8), 20),
    "one row": ((1, 40), 3),
    "long rows": ((40, 9000), 20),
    "odd": ((333, 77), 100),
    "elements": ((3000,), 700),
    "inner dimensions": ((2000, 3, 5), 900),
    "more rows than positions are cached": ((200_000, 8), 70_000),
}
INDICES = ("once", "repeated", "few rows", "one place")


def index_of(kind: str, size: int, entries: int) -> Tensor:
    if kind == "once":
        return (torch.randperm(size)[:entries] - (torch.rand(min(entries, size)) < 0.5) * size).cuda()
    rows = {"repeated": size, "few rows": min(size, 5), "one place": 1}[kind]
    return (torch.randint(0, rows, (entries,)) - size).cuda()


def updated(x: Tensor, index: Tensor, v: Tensor, weights: Tensor) -> list[Tensor]:
    """What a loop over the entries gives, and the gradients of x and v."""
    last = {place % len(x): entry for entry, place in enumerate(index.tolist())}
    rows, entries = (torch.tensor([*part], device=x.device) for part in (last.keys(), last.values()))
    result, to_x, to_v = x.clone(), weights.clone(), torch.zeros_like(v)
    result[rows], to_x[rows], to_v[entries] = v[entries], 0, weights[rows]
    return [result, to_x, to_v]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("name", SHAPES)
def test_the_last_for_each_row_counts(name: str, kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    shape, entries = SHAPES[name]
    for turn in range(2):
        index = index_of(kind, shape[0], entries)
        x = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)
        v = torch.randn(len(index), *shape[1:], device="cuda", dtype=dtype, requires_grad=True)
        weights = torch.randn_like(x)
        result = at(x)[index].set(v, unique_indices=kind == "once" and turn % 2 == 1)
        ours = [result, *torch.autograd.grad(result, (x, v), weights)]
        for one, other in zip(ours, updated(x.detach(), index, v.detach(), weights), strict=True):
            assert torch.equal(one, other)
        filled = at(x)[index].set(1.5)
        by_hand = x.detach().clone()
        by_hand[index] = 1.5
        assert torch.equal(filled, by_hand)
        assert torch.equal(torch.autograd.grad(filled, x, weights)[0], ours[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("name", SHAPES)
def test_all_are_added(name: str, kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    shape, entries = SHAPES[name]
    for _ in range(2):
        index = index_of(kind, shape[0], entries)
        x = torch.randint(-8, 8, shape, device="cuda").to(dtype)  # so that all sums are exact
        v = torch.randint(-2, 3, (len(index), *shape[1:]), device="cuda").to(dtype)
        if dtype is torch.bfloat16 and kind in ("few rows", "one place"):
            v = v * (torch.arange(len(index), device="cuda") % 97 == 0).reshape(-1, *(1,) * (len(shape) - 1))
        exact = x.double().index_add(0, index % len(x), v.double())
        assert torch.equal(at(x)[index].add(v).double(), exact)


def test_gradients_that_have_no_memory_of_their_own() -> None:
    index = torch.tensor([3, 1, 3, -1], device="cuda")
    for _ in range(4):
        x, v = (torch.randn(rows, 6, device="cuda", requires_grad=True) for rows in (300, 4))
        to_x, to_v = torch.autograd.grad(at(x)[index].set(v).sum(), (x, v))
        assert torch.equal(to_v, torch.tensor([0.0, 1, 1, 1], device="cuda")[:, None].expand(4, 6))
        assert to_x.sum() == 6 * 297
        whole = torch.randn(6, 300, device="cuda")
        to_x, to_v = torch.autograd.grad(at(x)[index].set(v), (x, v), whole.t())
        assert torch.equal(to_v[1:], whole.t()[[1, 3, -1]]) and not to_x[[1, 3, -1]].any()


def test_only_what_is_asked_for() -> None:
    index, weights = torch.tensor([3, 1, 3], device="cuda"), torch.randn(300, 4, device="cuda")
    for _ in range(4):
        x, v = (torch.randn(rows, 4, device="cuda", requires_grad=True) for rows in (300, 3))
        result = at(x)[index].set(v)
        (to_x,) = torch.autograd.grad(result, x, weights, retain_graph=True)
        (to_v,) = torch.autograd.grad(result, v, weights)
        for one, other in zip((to_x, to_v), updated(x.detach(), index, v.detach(), weights)[1:], strict=True):
            assert torch.equal(one, other)


def test_a_gradient_for_the_value_alone() -> None:
    """Where x has none and each row is named once, its gradient, as large as x, is not made either."""
    weights, index = torch.randn(30_000, 64, device="cuda"), torch.randperm(30_000, device="cuda")[:300]
    for _ in range(4):
        x, v = torch.randn(30_000, 64, device="cuda"), torch.randn(300, 64, device="cuda", requires_grad=True)
        result = at(x)[index].set(v, unique_indices=True)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        (to_v,) = torch.autograd.grad(result, v, weights)
        assert torch.equal(to_v, weights[index])
        assert torch.cuda.max_memory_allocated() - before < x.numel()


def test_derivatives_of_derivatives() -> None:
    index = torch.tensor([3, 1, 3], device="cuda")

    def update(x: Tensor, v: Tensor) -> Tensor:
        return at(x)[index].set(v)

    for _ in range(4):
        given: list[Any] = [
            torch.randn(rows, 2, device="cuda", dtype=torch.float32, requires_grad=True) for rows in (5, 3)
        ]
        result = update(*given)
        first = torch.autograd.grad((result**3).sum(), given, create_graph=True)
        second = torch.autograd.grad(sum((part**2).sum() for part in first), given)
        exact = [part.detach().double().cpu().requires_grad_() for part in given]
        last = torch.tensor([False, True, True])
        by_loop = exact[0].index_put((torch.tensor([1, 3]),), exact[1][last])
        first_exact = torch.autograd.grad((by_loop**3).sum(), exact, create_graph=True)
        second_exact = torch.autograd.grad(sum((part**2).sum() for part in first_exact), exact)
        for one, other in zip((*first, *second), (*first_exact, *second_exact), strict=True):
            assert torch.allclose(one.double().cpu(), other, rtol=1e-4, atol=1e-4)
    ones = torch.ones(3, 5, 2, device="cuda")
    to_x, to_v = torch.autograd.grad(update(*given), given, ones, is_grads_batched=True)
    assert torch.equal(to_v[0], torch.tensor([[0.0, 0], [1, 1], [1, 1]], device="cuda"))
    assert torch.equal(to_x[2], torch.tensor([1.0, 0, 1, 0, 1], device="cuda")[:, None].expand(5, 2))


def test_inside_a_graph_of_kernels() -> None:
    x, v = torch.randn(3000, 16, device="cuda"), torch.randn(900, 16, device="cuda")
    index = torch.randperm(3000, device="cuda")[:900]
    for _ in range(3):
        at(x)[index].set(v)
        at(x)[index].add(v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept, added = at(x)[index].set(v), at(x)[index].add(v)
    x.normal_(), v.normal_(), index.copy_(torch.randperm(3000)[:900])
    graph.replay()
    assert torch.equal(kept, updated(x, index, v, x)[0])
    assert torch.allclose(added, x.index_add(0, index, v), atol=1e-5)
