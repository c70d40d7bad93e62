"""Digests: equal numbers have equal ones however they lie in memory, and one bit is enough to tell two apart."""

from __future__ import annotations

import pytest
import torch

from outplace.reclaim.observe import digests
from outplace.reclaim.observe.digests import of_tensors

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ODD)
def test_the_digest_is_that_of_the_numbers(name, device):
    tensor = ODD[name].to(device)
    dense = tensor.to_dense() if tensor.is_sparse else tensor
    same = torch.empty(dense.shape, dtype=dense.dtype, device=device).copy_(dense)
    assert of_tensors([tensor]) == of_tensors([same])
    if same.numel():
        same.view(-1)[-1] += 1
        assert of_tensors([tensor]) != of_tensors([same])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.complex128])
def test_one_bit_makes_another_digest(dtype: torch.dtype, device: str) -> None:
    x = torch.randn(digests._STRETCH + 5).to(dtype).to(device)
    before = of_tensors([x])
    assert of_tensors([x.clone()]) == before
    for place in (0, 7, digests._STRETCH - 1, digests._STRETCH, len(x) - 1):
        for bit in (0,) if dtype is torch.bool else (0, 7):
            other = x.clone()
            other[place : place + 1].view(torch.uint8)[-1] ^= 1 << bit
            assert of_tensors([other]) != before


@pytest.mark.parametrize("numbers", [torch.int16, torch.int32, torch.int64, torch.uint8])
def test_sums_see_what_is_changed_and_what_is_swapped(numbers: torch.dtype) -> None:
    x = torch.randint(0, 200, (digests._STRETCH + 100,), dtype=numbers)
    before = digests._sums(x)
    for place in range(0, len(x), 4999):
        changed, swapped = x.clone(), x.clone()
        changed[place] += 1
        assert not torch.equal(digests._sums(changed), before)
        swapped[place], swapped[place - 50] = x[place - 50], x[place]
        assert torch.equal(digests._sums(swapped), before) == bool(x[place] == x[place - 50])
