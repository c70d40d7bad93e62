"""`at` gives what a write to a clone gives, for every index; x stays as it is; the result owns its memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from outplace import at
from outplace.updates import cached_tensors, repeated_indices
from outplace.updates.fast_paths import last_rows
from outplace.updates.index import extent

from .indices import entry_by_entry, indices, low_thresholds, reference, tensors, values

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.complex64)
OPERATIONS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "min": torch.minimum,
    "max": torch.maximum,
}


def taken_by_torch(x: torch.Tensor, index: Any) -> torch.Tensor:
    try:
        return x[index]
    except IndexError:  # tensors that do not broadcast together; ours must refuse them as well
        with pytest.raises((IndexError, ValueError)):
            at(x)[index].set(1)
        assume(False)
        raise


PLACES = st.none() | st.integers(-9, 9)


@given(st.builds(slice, PLACES, PLACES, st.none() | st.integers(1, 4)), st.integers(0, 7))
def test_a_slice_reaches_as_far_as_a_list_has_elements(item: slice, size: int) -> None:
    start, stop, step = extent(item, size)
    assert list(range(size))[item] == list(range(size))[start:stop:step] == list(range(start, stop, step))


@given(st.data(), tensors(DTYPES))
def test_set_is_a_write_to_a_clone(data: st.DataObject, x: torch.Tensor) -> None:
    index = data.draw(indices(x))
    part = taken_by_torch(x, index)
    v = data.draw(values(tuple(part.shape), x.dtype))
    before = x.clone()
    expected = reference(x, index, v)
    result = at(x)[index].set(v)
    assert result.dtype == x.dtype and torch.equal(result, expected)
    assert torch.equal(x, before)
    assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert result.untyped_storage().nbytes() == x.numel() * x.element_size()
    assert torch.equal(at(x)[index].get(), part)
    assert at(x)[index].get().untyped_storage().data_ptr() != x.untyped_storage().data_ptr() or part.numel() == 0


@given(st.data(), tensors((torch.float32, torch.float64, torch.bfloat16)))
def test_large_tensors_are_updated_like_small_ones(data: st.DataObject, x: torch.Tensor) -> None:
    index = data.draw(indices(x))
    part = taken_by_torch(x, index)
    v = data.draw(values(tuple(part.shape), x.dtype))
    with pytest.MonkeyPatch.context() as monkeypatch:
        low_thresholds(monkeypatch)
        assert torch.equal(at(x)[index].set(v), reference(x, index, v))


@given(st.data(), tensors((torch.float64, torch.int64)), st.sampled_from(sorted(OPERATIONS)))
def test_operations_are_applied_for_each_entry(data: st.DataObject, x: torch.Tensor, name: str) -> None:
    assume(name != "div" or x.is_floating_point())
    index = data.draw(indices(x))
    part = taken_by_torch(x, index)
    v = data.draw(values(tuple(part.shape), x.dtype))
    if isinstance(v, torch.Tensor) and v.dim() > part.dim():
        v = v.reshape(part.shape)
    expected = entry_by_entry(x, index, v, OPERATIONS[name])
    assert torch.allclose(getattr(at(x)[index], name)(v), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["add", "multiply", "minimum", "maximum"])
def test_repeated_indices_accumulate_as_in_numpy(name: str) -> None:
    x, index, v = numpy.arange(1.0, 6.0), numpy.array([1, 1, 3, -4, 0]), numpy.array([2.0, 3.0, 0.5, 7.0, 9.0])
    expected = x.copy()
    getattr(numpy, name).at(expected, index, v)
    place = at(torch.from_numpy(x))[torch.from_numpy(index)]
    method = {"multiply": "mul", "minimum": "min", "maximum": "max"}.get(name, name)
    assert numpy.array_equal(getattr(place, method)(torch.from_numpy(v)).numpy(), expected)


def test_operations_work_on_bools() -> None:
    x = torch.tensor([True, False, True, False])
    index, v = torch.tensor([0, 1, 1]), torch.tensor([False, False, True])
    assert at(x)[index].add(v).tolist() == [True, True, True, False]
    assert at(x)[index].mul(v).tolist() == [False, False, True, False]
    assert at(x)[index].max(v).tolist() == [True, True, True, False]
    assert at(x)[x].set(False).tolist() == [False] * 4


def test_of_repeated_values_the_last_one_counts_where_a_gradient_flows() -> None:
    index = torch.tensor([2, 0, 2, -3, 2])
    v = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    result = at(torch.zeros(3))[index].set(v)
    result.backward(torch.tensor([10.0, 20.0, 30.0]))
    assert result.tolist() == [4, 0, 5] and v.grad is not None
    assert v.grad.tolist() == [0, 0, 0, 10, 30]


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 3)], ids=str)
@pytest.mark.parametrize("index", [[0, 0, 0], [4, -1, 4, 2], [1, 3], [-5, 0, -5, 0, 3, 3], []], ids=str)
def test_the_last_of_rows_counts_without_a_look_at_the_index(
    index: list[int], shape: tuple[int, ...], device: str
) -> None:
    """The way for CUDA is the same as that for the CPU, which looks: values, gradients, and their gradients."""
    places = torch.tensor(index, dtype=torch.long, device=device)
    x, v, weights = (
        torch.randn(size, *shape[1:], dtype=torch.float64, device=device, requires_grad=True)
        for size in (shape[0], len(index), shape[0])
    )
    results = []
    for result in (last_rows(x, places, v), at(x)[places].set(v)):
        assert result is not None
        first = torch.autograd.grad(result, (x, v), weights, create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), weights)
        results.append((result, *first, *second))
    assert all(map(torch.equal, *results))
    written = x.detach().clone()
    for entry, place in enumerate(index):
        written[place] = v.detach()[entry]
    assert torch.equal(results[0][0], written)


@given(st.data(), st.sampled_from(((3, 4), (30, 50))))
def test_repeats_are_found_among_few_places_and_many(data: st.DataObject, shape: tuple[int, int]) -> None:
    numbers = [st.integers(-size, size - 1) for size in shape]
    pairs = data.draw(st.lists(st.tuples(*numbers), min_size=1, max_size=6))
    if data.draw(st.booleans()):  # the same place, counted from the other end
        pairs.append((pairs[0][0] - shape[0] if pairs[0][0] >= 0 else pairs[0][0] + shape[0], pairs[0][1]))
    once = len({(i % shape[0], j % shape[1]) for i, j in pairs}) == len(pairs)
    assert repeated_indices.none(tuple(map(torch.tensor, zip(*pairs, strict=True))), shape) is once


def test_signs_of_zeros_and_nans_survive_repeated_indices() -> None:
    v = torch.tensor([1.0, -0.0, float("nan"), -0.0, float("inf")], requires_grad=True)
    result = at(torch.ones(4))[torch.tensor([0, 0, 1, 2, 2])].set(v)
    assert torch.equal(result.signbit(), torch.tensor([True, False, False, False]))
    assert result[0] == 0 and result[1].isnan() and result[2] == float("inf") and result[3] == 1


def test_apply_calls_once_with_what_get_gives() -> None:
    calls = []

    def double(part: torch.Tensor) -> torch.Tensor:
        calls.append(part.tolist())
        return part * 2

    assert at(torch.arange(4.0))[1:3].apply(double).tolist() == [0, 2, 4, 3] and calls == [[1, 2]]
    assert at(torch.arange(4.0))[torch.tensor([1, 1])].apply(double).tolist() == [0, 2, 2, 3]


def test_a_value_of_the_shape_of_x_goes_under_a_mask_place_by_place() -> None:
    x, v = torch.arange(6.0).reshape(2, 3), -torch.arange(6.0).reshape(2, 3)
    mask = torch.tensor([[True, False, True], [False, False, True]])
    assert torch.equal(at(x)[mask].set(v), torch.where(mask, v, x))
    assert torch.equal(at(x)[mask].set(v[mask]), torch.where(mask, v, x))
    assert torch.equal(at(x)[mask].mul(v), torch.where(mask, x * v, x))
    assert torch.equal(at(x)[mask].mul(v[mask]), torch.where(mask, x * v, x))


def test_a_mask_of_the_rank_of_x_broadcasts() -> None:
    scores = torch.rand(2, 3, 4, 5)
    mask = torch.rand(2, 1, 1, 5) < 0.5
    assert torch.equal(at(scores)[mask].set(-1.0), scores.masked_fill(mask, -1.0))
    assert torch.equal(at(scores)[mask].add(1), torch.where(mask, scores + 1, scores))
    wide = mask.expand(scores.shape)
    v = torch.rand(int(wide.sum()))
    assert torch.equal(at(scores)[mask].set(v), reference(scores, wide, v))
    assert torch.equal(at(scores)[mask].mul(v), reference(scores, wide, scores[wide] * v))


def test_all_of_x_replaced_is_no_view_of_the_value() -> None:
    x, v = torch.rand(2, 3), torch.rand(3)
    for index in (slice(None), ..., (), None, (slice(None), slice(None)), torch.ones(2, 3) > 0):
        for result in (at(x)[index].set(v if not isinstance(index, torch.Tensor) else x), at(x)[index].add(0.0)):
            assert result.untyped_storage().data_ptr() not in (v.data_ptr(), x.data_ptr())
    batched = torch.func.vmap(lambda v: at(x)[:].set(v))(v[None])
    assert torch.equal(batched[0], v.expand(2, 3)) and batched.data_ptr() != v.data_ptr()


def test_outside_the_mask_nothing_reaches_a_gradient() -> None:
    x = torch.tensor([4.0, -1.0, float("inf"), 0.0], requires_grad=True)
    v = torch.tensor([0.5, 0.5, 0.5, 0.5], requires_grad=True)
    mask = torch.tensor([True, False, False, False])
    for name, to_x, to_v in (("pow", 0.25, 2 * 1.3862943), ("mul", 0.5, 4.0), ("div", 2.0, -16.0)):
        got = torch.autograd.grad(getattr(at(x)[mask], name)(v).sum(), (x, v))
        assert torch.allclose(got[0], torch.tensor([to_x, 1, 1, 1])), name
        assert torch.allclose(got[1], torch.tensor([to_v, 0, 0, 0])), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_no_dtype(dtype: torch.dtype) -> None:
    x, index = torch.rand(4, dtype=dtype), torch.tensor([0, 0, 2])
    for name in ("set", *OPERATIONS):
        for place in (index, x > 0.5, slice(0, 2)):
            v = torch.ones((), dtype=torch.float32, requires_grad=True)
            without = getattr(at(x)[place], name)(v)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                result = getattr(at(x)[place], name)(v)
            assert result.dtype == dtype and torch.allclose(result, without)


def test_autocast_takes_no_part_in_a_choice_of_dtypes() -> None:
    """Its `index_copy` would give the wider of two dtypes, and its `cat` refuses the other of the short ones."""
    large = torch.zeros(1 << 21, dtype=torch.float16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = torch.zeros(3, 4, dtype=torch.bfloat16)
        assert at(x)[torch.tensor([0, 1])].set(torch.ones(2, 4)).dtype == torch.bfloat16
        assert at(large)[: 1 << 20].set(torch.ones(1 << 20, dtype=torch.float16)).sum(dtype=torch.float32) == 1 << 20


@pytest.mark.parametrize("index", [1, slice(0, 2), torch.tensor([0, 1]), torch.tensor([True, True, False])], ids=str)
@pytest.mark.parametrize("kept", [True, False], ids=["numbers kept", "none kept"])
def test_numbers_become_what_x_has(index: Any, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_tensors, "_numbers", {})
    monkeypatch.setattr(cached_tensors, "_MOST_NUMBERS", 256 if kept else 0)
    flags, large = torch.tensor([True, False, True]), torch.tensor([2**60 + 1, 2**60 + 3, 5])
    for v in (0, 1, 0.0, 1.0, True):
        assert torch.equal(at(flags)[index].set(v), reference(flags, index, bool(v)))
    for v in (-0.0, 2.0, True):
        assert torch.equal(at(large)[index].set(v), reference(large, index, int(v)))
    for name in ("add", "sub", "mul", "pow", "min", "max"):
        assert torch.equal(getattr(at(large)[index], name)(1.0), getattr(at(large)[index], name)(1))
    for x in (torch.ones(3), torch.ones(3, dtype=torch.complex64)):
        assert torch.equal(at(x)[index].sub(True), at(x)[index].sub(1))
        assert torch.equal(at(x)[index].set(2**70), at(x)[index].set(2.0**70))


@pytest.mark.parametrize("index", [1, slice(0, 2), (slice(None), 1), (slice(None), slice(0, 2)), (1, 1), 0])
@pytest.mark.parametrize("value", ["number", "tensor"])
def test_neither_x_nor_a_gradient_is_copied_with_all_that_it_is_a_view_of(index: Any, value: str) -> None:
    """As ATen's `slice_scatter` does: after `torch.stack` each gradient is a view of that of all."""
    x = torch.rand(50, 4, 3)[7].requires_grad_()
    v: Any = torch.rand_like(x[index]).requires_grad_() if value == "tensor" else 0.5
    result = at(x)[index].set(v)
    assert torch.equal(result, reference(x, index, v))
    assert result.untyped_storage().nbytes() == x.nbytes
    weights = torch.rand(50, 4, 3)[9]
    inputs = [x, v] if value == "tensor" else [x]
    gradients = torch.autograd.grad(result, inputs, weights)
    assert torch.equal(gradients[0], reference(weights, index, 0.0))
    assert gradients[0].untyped_storage().nbytes() == x.nbytes
    assert value == "number" or torch.equal(gradients[1], weights[index])
    inside = torch.func.grad(lambda x: (at(x)[index].set(v) * weights).sum())(x)
    assert torch.equal(inside, gradients[0]) and inside.untyped_storage().nbytes() == x.nbytes


def test_get_takes_every_index_that_set_takes() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    mask = torch.tensor([[True], [False], [True]])
    assert torch.equal(at(x)[mask].get(), x[mask.expand(3, 4)])
    assert torch.equal(at(x)[mask].apply(lambda part: part * 2), torch.where(mask, x * 2, x))


def test_additions_to_rows_without_elements() -> None:
    x, v = torch.zeros(4, 0, requires_grad=True), torch.zeros(2, 0, requires_grad=True)
    at(x)[torch.tensor([-1, 0])].add(v).sum().backward()
    assert x.grad is not None and x.grad.shape == (4, 0) and v.grad is not None and v.grad.shape == (2, 0)


class Tagged(torch.Tensor):
    pass


def test_subclasses_stay_what_they_are() -> None:
    x = torch.rand(3, 4).as_subclass(Tagged)
    for index in (0, slice(1, 3), x > 0.5, torch.tensor([0, 0]), (slice(None), [1, 2])):
        assert type(at(x)[index].set(0.0)) is Tagged and type(at(x)[index].mul(2.0)) is Tagged


def test_numpy_indices_and_values_are_taken() -> None:
    x = torch.zeros(3, 4)
    assert at(x)[numpy.int64(1), numpy.array([0, 2])].set(numpy.array([1.0, 2.0]))[1].tolist() == [1, 0, 2, 0]
    assert at(x)[range(2)].set([1, 2, 3, 4])[1].tolist() == [1, 2, 3, 4]
    assert at(torch.zeros(2, dtype=torch.float64))[0].set([0.1]).tolist() == [0.1, 0.0]


def test_importing_outplace_does_not_import_torch() -> None:
    import subprocess

    code = "import sys, outplace; assert 'torch' not in sys.modules; outplace.at; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
