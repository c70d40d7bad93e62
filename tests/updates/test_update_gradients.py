"""Gradients of `at`: to x and to v, at repeated indices, twice, forward, batched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, jvp, vmap

from outplace import at

from .indices import entry_by_entry, indices, low_thresholds, tensors, values
from .test_at import OPERATIONS, taken_by_torch

ALL = {"set": lambda old, new: new, **OPERATIONS}
INDICES: dict[str, Any] = {
    "slice": slice(1, 3),
    "column": (slice(None), 2),
    "block": (slice(1, 3), slice(0, 4, 3)),
    "mask": torch.rand(4, 5, generator=torch.Generator().manual_seed(1)) < 0.5,
    "rows": torch.tensor([True, False, True, True]),
    "repeated": torch.tensor([1, 1, 3, -1]),
    "repeated pairs": (torch.tensor([0, 1, 0]), torch.tensor([1, 2, 1])),
    "mixed": (slice(1, 4), [0, 0, 4]),
}


def inputs(index: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.rand(4, 5, dtype=torch.float64) + 0.5
    return x, torch.rand_like(x[index]) + 0.5, torch.rand_like(x)


@settings(max_examples=40)
@given(st.data(), tensors(most=2), st.sampled_from(sorted(ALL)))
def test_gradients_are_those_of_the_numbers(data: st.DataObject, x: torch.Tensor, name: str) -> None:
    index = data.draw(indices(x))
    part = taken_by_torch(x, index)
    v = data.draw(values(tuple(part.shape), x.dtype))
    assume(part.numel())
    x = x.clone().requires_grad_()
    large = data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as monkeypatch:
        if large:
            low_thresholds(monkeypatch)
        if not isinstance(v, torch.Tensor):
            assert gradcheck(lambda x: getattr(at(x)[index], name)(v), x, fast_mode=True)
            assert gradgradcheck(lambda x: getattr(at(x)[index], name)(v), x, fast_mode=True)
            return
        v.requires_grad_()
        assert gradcheck(lambda x, v: getattr(at(x)[index], name)(v), (x, v), check_forward_ad=True, fast_mode=True)
        if name == "set" and part.numel() >= x.numel():
            return  # nothing is left of x, its gradient is a constant, and gradgradcheck mistakes it for another
        assert gradgradcheck(lambda x, v: getattr(at(x)[index], name)(v), (x, v), fast_mode=True)


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("case", sorted(INDICES))
def test_no_gradient_is_lost_or_invented(case: str, name: str) -> None:
    index = INDICES[case]
    x, v, weights = inputs(index)

    def update(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (getattr(at(x)[index], name)(v) * weights).sum()

    def by_hand(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (entry_by_entry(x, index, v, ALL[name]) * weights).sum()

    x.requires_grad_()
    v.requires_grad_()
    expected = torch.autograd.grad(by_hand(x, v), (x, v))
    for got, wanted in zip(torch.autograd.grad(update(x, v), (x, v)), expected, strict=True):
        assert torch.allclose(got, wanted)


@pytest.mark.parametrize("name", ["set", "add", "mul", "max"])
@pytest.mark.parametrize("case", sorted(INDICES))
def test_batches_have_the_gradients_of_their_elements(case: str, name: str) -> None:
    index = INDICES[case]
    x, v, weights = inputs(index)
    several_x, several_v = torch.stack([x, x + 1]), torch.stack([v, v + 1])

    def update(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (getattr(at(x)[index], name)(v) * weights).sum()

    def by_hand(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (entry_by_entry(x, index, v, ALL[name]) * weights).sum()

    for dims in ((0, None), (None, 0), (0, 0)):
        arguments = (several_x if dims[0] == 0 else x, several_v if dims[1] == 0 else v)
        got = vmap(grad(update, argnums=(0, 1)), dims)(*arguments)
        for element in range(2):
            one = [a[element] if d == 0 else a for a, d in zip(arguments, dims, strict=True)]
            expected = grad(by_hand, argnums=(0, 1))(*one)
            for batch, wanted in zip(got, expected, strict=True):
                assert torch.allclose(batch[element], wanted), dims
    tangents = (torch.rand_like(x), torch.rand_like(v))
    for a, b in zip(jvp(update, (x, v), tangents), jvp(by_hand, (x, v), tangents), strict=True):
        assert torch.allclose(a, b)


def test_batched_indices_and_masks() -> None:
    x = torch.rand(3, 4, 5)
    where = torch.tensor([[0, 0], [1, 3], [-1, 2]])
    masks = torch.tensor([[True, False, True, True], [False, False, False, False], [False, True, False, True]])
    single = torch.tensor([0, 3, -1])
    in_order = torch.rand(3, 5)
    for index in (where, masks, single):
        got = vmap(lambda x, i: at(x)[i].set(0.0))(x, index)
        assert torch.equal(got, torch.stack([at(a)[i].set(0.0) for a, i in zip(x, index, strict=True)]))
    got = vmap(lambda x, m: at(x)[m].set(in_order))(x, masks)
    expected = torch.stack([at(a)[m].set(in_order[: int(m.sum())]) for a, m in zip(x, masks, strict=True)])
    assert torch.equal(got, expected)  # where the number of Trues cannot be known, the first values are used
    got = vmap(lambda i: at(x[0])[i].mul(in_order[:2]))(where)
    assert torch.allclose(got, torch.stack([at(x[0])[i].mul(in_order[:2]) for i in where]))


def test_batched_pairs_of_indices() -> None:
    x, row, column = torch.rand(2, 3, 4, 5), torch.tensor([0, 2, -1]), torch.tensor([1, 1, 4])
    updates = (
        lambda i, j: at(x)[:, i, :, j].set(0.0),
        lambda i, j: at(x)[0, i, 1:, j].add(1.0),
        lambda i, j: at(x)[:, i, [0, 1], j].mul(2.0),
    )
    for update in updates:
        expected = torch.stack([update(int(i), int(j)) for i, j in zip(row, column, strict=True)])
        assert torch.equal(vmap(update)(row, column), expected)


@pytest.mark.parametrize("case", ["slice", "column", "block", "mask", "repeated"])
@pytest.mark.parametrize("name", ["set", "mul"])
def test_complex_numbers_have_gradients(case: str, name: str) -> None:
    index = INDICES[case]
    x, v, _ = (torch.complex(part, part.flip(-1)).requires_grad_() for part in inputs(index))
    assert gradcheck(lambda x, v: getattr(at(x)[index], name)(v), (x, v), fast_mode=True)
    assert gradcheck(lambda x: getattr(at(x)[index], name)(2j), x, fast_mode=True)
    batched = vmap(lambda v: getattr(at(x)[index], name)(v))(v[None])
    assert torch.equal(batched[0], getattr(at(x)[index], name)(v))


def test_ties_share_the_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    v = torch.ones(3, requires_grad=True)
    to_x, to_v = torch.autograd.grad(at(x)[torch.tensor([0, 0, 0])].max(v).sum(), (x, v))
    assert to_x[1] == 1 and float(to_x[0] + to_v.sum()) == 1 and bool((to_v > 0).all())


def test_unique_indices_is_the_same_where_the_promise_is_kept() -> None:
    x, index = torch.rand(4, 5, dtype=torch.float64), torch.tensor([2, 0])
    v = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    for name in ("set", "mul", "div", "pow", "min", "max"):
        promised = getattr(at(x)[index], name)(v, unique_indices=True)
        assert torch.equal(promised, getattr(at(x)[index], name)(v))
        assert gradcheck(lambda v, name=name: getattr(at(x)[index], name)(v, unique_indices=True), v)
