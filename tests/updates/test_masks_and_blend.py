"""`to_mask` is True where the index reads; `blend` is the formula, with its price."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outplace import at, blend, to_mask

from .indices import indices, tensors
from .test_at import taken_by_torch


@given(st.data(), tensors())
def test_the_mask_is_true_where_the_index_reads(data: st.DataObject, x: torch.Tensor) -> None:
    index = data.draw(indices(x))
    taken_by_torch(x, index)
    read = torch.arange(x.numel()).reshape(x.shape)[index].reshape(-1).tolist()
    mask = to_mask(index, like=x)
    assert mask.dtype == torch.bool and mask.shape == x.shape
    assert mask.reshape(-1).nonzero().reshape(-1).tolist() == sorted(set(read))


def test_an_index_and_a_slice_as_masks() -> None:
    x = torch.zeros(4, 2)
    assert to_mask(torch.tensor([0, 2]), like=x)[:, 0].tolist() == [True, False, True, False]
    assert to_mask(slice(1, 3), like=x)[:, 1].tolist() == [False, True, True, False]
    assert to_mask([0, 2], like=x.to("meta")).device.type == "meta"
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        to_mask(4, like=x)


def test_blend_replaces_under_the_mask_and_keeps_the_gradient() -> None:
    x = torch.tensor([0.2, 0.4, 0.6, 0.8], requires_grad=True)
    result = blend(x, x > 0.5, torch.zeros(4))
    assert torch.allclose(result, torch.tensor([0.2, 0.4, 0.0, 0.0])) and result.grad_fn is not None
    result.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0, 0]
    assert torch.equal(at(x)[x > 0.5].set(0.0), result)


def test_blend_takes_soft_masks() -> None:
    assert blend(torch.zeros(3), torch.tensor([0.0, 0.25, 1.0]), 4.0).tolist() == [0, 1, 4]


def test_where_blend_fails_at_does_not() -> None:
    x, mask = torch.tensor([1.0, float("inf"), float("inf")]), torch.tensor([True, True, False])
    assert blend(x, mask, 0.0).isnan().tolist() == [False, True, True]
    assert at(x)[mask].set(0.0).tolist() == [0, 0, float("inf")]
