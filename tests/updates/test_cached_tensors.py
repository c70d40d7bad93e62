"""Numbers that are kept as tensors: nobody can tell them from the plain number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from outplace import at
from outplace.updates import cached_tensors

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
MASK = torch.tensor([True, False, True, False])


@pytest.fixture(autouse=True)
def _nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_tensors, "_numbers", {})
    monkeypatch.setattr(cached_tensors, "_ranges", {})


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("v", [0.0, -0.0, 0.1, 1e30, float("inf"), float("nan"), -1e4])
def test_the_bits_are_those_of_the_number(v: float, dtype: torch.dtype, device: str) -> None:
    x, mask = torch.randn(4, dtype=dtype, device=device, requires_grad=True), MASK.to(device)
    for _ in range(2):  # when it is made, and when it is there
        same_or_same_error(lambda: at(x)[mask].set(v), lambda: torch.where(mask, v, x))
        same_or_same_error(lambda: at(x)[1:3].set(v), lambda: written(x.detach().clone(), v))


def same_or_same_error(ours: Callable[[], torch.Tensor], theirs: Callable[[], torch.Tensor]) -> None:
    try:
        expected = theirs()
    except RuntimeError as error:  # float16 on CUDA does not take what is too large
        with pytest.raises(RuntimeError, match=str(error)):
            ours()
        return
    found = ours()
    assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
    assert torch.equal(found.signbit(), expected.signbit())


def written(x: torch.Tensor, v: float) -> torch.Tensor:
    x[1:3] = v
    return x


def test_the_signs_of_zeros_are_not_mixed_up() -> None:
    x = torch.ones(4)
    for v in (0.0, -0.0, 0.0):
        assert at(x)[MASK].set(v).signbit().tolist() == torch.where(MASK, v, x).signbit().tolist()


def test_a_write_to_the_result_changes_no_number() -> None:
    x = torch.ones(4, requires_grad=True)
    for _ in range(2):
        for result in (at(x)[MASK].set(0.5), at(x)[:].set(0.5), at(x)[1:3].set(0.5)):
            with torch.no_grad():
                result.fill_(9.0)
    assert at(x)[MASK].set(0.5).tolist() == [0.5, 1.0, 0.5, 1.0]


def test_what_inference_has_made_is_good_for_training() -> None:
    with torch.inference_mode():
        at(torch.ones(4))[MASK].set(0.5)
        at(torch.ones(4))[1:3].set(0.5)
    x = torch.ones(4, requires_grad=True)
    (at(x)[MASK].set(0.5) * at(x)[1:3].set(0.5)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.5, 0.5, 0.0, 2.0]


@pytest.mark.parametrize("first", [True, False])
def test_tensors_without_values_get_none_with(first: bool) -> None:
    """A number that is kept from a plain update must not get among fake tensors, nor a fake one be kept."""
    if not first:
        at(torch.ones(4, requires_grad=True))[MASK].set(0.5)
        at(torch.ones(4, requires_grad=True))[1:3].set(0.5)
    with FakeTensorMode() as fake:
        x, mask = fake.from_tensor(torch.ones(4, requires_grad=True)), fake.from_tensor(MASK)
        assert at(x)[mask].set(0.5).shape == at(x)[1:3].set(0.5).shape == (4,)
    assert at(torch.ones(4, device="meta"))[MASK.to("meta")].set(0.5).is_meta
    assert at(torch.ones(4))[MASK].set(0.5).tolist() == [0.5, 1.0, 0.5, 1.0]


def test_positions_are_for_tensors_with_values() -> None:
    kept = cached_tensors.positions(0, 4, torch.ones(1))
    assert kept is not None and kept.tolist() == [0, 1, 2, 3]
    with FakeTensorMode() as fake:
        assert cached_tensors.positions(0, 4, fake.from_tensor(torch.ones(1))) is None


class Tagging(TorchFunctionMode):
    """Makes a tensor of another class of all that is made."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result.as_subclass(Tagged) if type(result) is torch.Tensor else result


class Tagged(torch.Tensor):
    pass


def test_a_mode_that_changes_what_is_made_changes_nothing_that_is_kept() -> None:
    x = torch.ones(4, requires_grad=True)
    with Tagging():
        assert type(at(x)[MASK].set(0.5)) is Tagged and type(at(x)[1:3].set(0.5)) is Tagged
    assert type(at(x)[MASK].set(0.5)) is torch.Tensor and type(at(x)[1:3].set(0.5)) is torch.Tensor


def test_transforms_take_them() -> None:
    at(torch.ones(4))[MASK].set(0.5)
    batched = torch.func.vmap(lambda x: at(x)[MASK].set(0.5))(torch.ones(3, 4))
    assert batched.tolist() == [[0.5, 1.0, 0.5, 1.0]] * 3
    assert torch.func.grad(lambda x: at(x)[MASK].set(0.5).sum())(torch.ones(4)).tolist() == [0.0, 1.0, 0.0, 1.0]
    _, tangent = torch.func.jvp(lambda x: at(x)[MASK].set(0.5), (torch.ones(4),), (torch.ones(4),))
    assert tangent.tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("kept", [True, False])
def test_parts_inside_transforms_and_outside(kept: bool) -> None:
    x = torch.ones(4, requires_grad=True)
    for _ in range(2):
        if kept:
            assert at(x)[1:3].set(0.5).tolist() == [1.0, 0.5, 0.5, 1.0]
        assert torch.func.grad(lambda x: at(x)[1:3].set(0.5).sum())(torch.ones(4)).tolist() == [1.0, 0.0, 0.0, 1.0]
        assert torch.func.vmap(lambda x: at(x)[1:3].set(0.5))(x.expand(2, 4)).tolist() == [[1.0, 0.5, 0.5, 1.0]] * 2
        kept = True


def test_a_part_that_ends_at_a_tensor_follows_it() -> None:
    x, end = torch.ones(4, requires_grad=True), torch.tensor(1)
    assert at(x)[:end].set(0.5).tolist() == [0.5, 1.0, 1.0, 1.0]
    end += 2
    assert at(x)[:end].set(0.5).tolist() == [0.5, 0.5, 0.5, 1.0]


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_tensors, "_MOST_NUMBERS", 3)
    for number in range(10):
        assert at(torch.ones(4))[MASK].set(float(number)).tolist() == [number, 1.0, number, 1.0]
    assert len(cached_tensors._numbers) == 3


@pytest.mark.parametrize("device", [CUDA])
def test_a_graph_reads_them_whenever_it_is_played(device: str) -> None:
    x, mask = torch.ones(4, device=device), MASK.to(device)
    index, v = torch.tensor([0, -1], device=device), torch.ones(2, 3, device=device)
    rows = torch.ones(4, 3, device=device)
    at(x)[mask].set(0.25), at(rows)[index].add(v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept, new = at(x)[mask].set(0.25), at(x)[mask].set(0.75)
        added = at(rows)[index].add(v)
    x.fill_(3.0)
    graph.replay()
    assert kept.tolist() == [0.25, 3.0, 0.25, 3.0] and new.tolist() == [0.75, 3.0, 0.75, 3.0]
    assert added[:, 0].tolist() == [2.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (10_000,), (10_000, 3)])
def test_additions_count_negative_indices_from_the_end(shape: tuple[int, ...], device: str) -> None:
    x = torch.randn(shape, device=device, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([0, -1, 3, -1, 2], device=device)
    v = torch.randn(5, *shape[1:], device=device, dtype=torch.float64, requires_grad=True)
    result, expected = at(x)[index].add(v), torch.index_put(x, (index,), v, accumulate=True)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(result)
    for ours, theirs in zip(
        torch.autograd.grad(result, (x, v), weights), torch.autograd.grad(expected, (x, v), weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("index", [MASK, slice(1, 3), 2], ids=str)
def test_selective_checkpoints_see_the_same_operations_twice(index: torch.Tensor | slice | int) -> None:
    """What is kept between a forward and its second run must not change what the second run does."""

    def block(x: torch.Tensor) -> torch.Tensor:
        return at(x.exp())[index].set(0.5).sin()

    x = torch.rand(4, requires_grad=True)
    aten = torch.ops.aten
    kept = [aten.exp.default, aten.where.self, aten.index_fill.int_Scalar]
    saving = functools.partial(create_selective_checkpoint_contexts, kept)
    result = checkpoint(block, x, use_reentrant=False, context_fn=saving)
    for y in (torch.ones(4, requires_grad=True), torch.ones(4)):
        at(y)[index].set(0.5)
    (found,) = torch.autograd.grad(result.sum(), x)
    (expected,) = torch.autograd.grad(block(x).sum(), x)
    assert torch.equal(found, expected)
