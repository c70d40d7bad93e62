"""Digests: equal numbers have equal ones however they lie in memory, and one bit is enough to tell two apart."""

from __future__ import annotations

import pytest
import torch

from outplace.reclaim.witness import of_tensors

ODD = {
    "a kernel of 1 x 1, channels last": torch.arange(12.0).reshape(3, 4, 1, 1).to(memory_format=torch.channels_last),
    "images, channels last": torch.arange(96.0).reshape(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "turned": torch.arange(6.0).reshape(2, 3).t(),
    "expanded": torch.ones(1).expand(5),
    "one number with a stride of 0": torch.ones(2).as_strided((1,), (0,)),
    "a number": torch.tensor(3.0),
    "nothing": torch.empty(0, 3),
    "conjugated": torch.tensor([1 + 2j]).conj(),
    "bfloat16": torch.arange(4, dtype=torch.bfloat16)[::2],
    "sparse": torch.eye(3).to_sparse(),
}


@pytest.mark.parametrize("name", ODD)
def test_the_digest_is_that_of_the_numbers(name):
    tensor = ODD[name]
    dense = tensor.to_dense() if tensor.is_sparse else tensor
    same = torch.empty(dense.shape, dtype=dense.dtype).copy_(dense)
    assert of_tensors([tensor]) == of_tensors([same])
    if same.numel():
        same.view(-1)[-1] += 1
        assert of_tensors([tensor]) != of_tensors([same])
