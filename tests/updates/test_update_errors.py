"""What `at` says of a wrong index or value: the axis, its size and the index; the shapes; the dtypes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from outplace import at, functional

T = torch.tensor
X = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (7, "index 7 is out of bounds for axis 0 with size 3"),
        ((0, -5), "index -5 is out of bounds for axis 1 with size 4"),
        (T([0, 9]), "index 9 is out of bounds for axis 0 with size 3"),
        ((slice(None), T([-9])), "index -9 is out of bounds for axis 1 with size 4"),
        ((0, T([1, 4])), "index 4 is out of bounds for axis 1 with size 4"),
        ((None, [5]), "index 5 is out of bounds for axis 0 with size 3"),
        ((0, 0, 0), "too many indices: x has 2 dimensions, but 3 are indexed"),
        (T([True, False]), "the mask does not fit: it has size 2 along its axis 0, and x has size 3 along axis 0"),
        (torch.zeros(3, 5) > 0, "the mask does not fit: it has size 5 along its axis 1, and x has size 4 along axis 1"),
        (T([0.5]), "an index must be of integers or bools, not float32"),
        ("a", "'a' is no index; use ints, slices, None, Ellipsis, masks, and lists or tensors of integers"),
        ((T([0, 1]), T([0, 1, 2])), "the index tensors of shapes (2,), (3,) do not broadcast together"),
    ],
)
@pytest.mark.parametrize("name", ["set", "add", "mul"])
@pytest.mark.parametrize("v", [1.0, torch.ones(())])
def test_wrong_indices(index: Any, message: str, name: str, v: Any) -> None:
    with pytest.raises(IndexError) as caught:
        getattr(at(X)[index], name)(v)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("index", "shape", "target"),
    [
        (slice(0, 2), (3,), (2, 4)),
        (0, (2, 4), (4,)),
        (T([0, 1]), (3, 4), (2, 4)),
        (T([True, False, True]), (3,), (2, 4)),
        (torch.ones(3, 4) > 0, (5,), (12,)),
        ((slice(None), T([0, 2])), (3, 3), (3, 2)),
    ],
)
@pytest.mark.parametrize("name", ["set", "add", "mul"])
def test_wrong_shapes(index: Any, shape: tuple[int, ...], target: tuple[int, ...], name: str) -> None:
    with pytest.raises(ValueError) as caught:
        getattr(at(X)[index], name)(torch.ones(shape))
    assert str(caught.value) == f"a value of shape {shape} does not broadcast to x[index], which has shape {target}"


def test_values_that_would_be_lost() -> None:
    whole = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"^the value 0.5 would be lost in a int64 tensor; convert x first$"):
        at(whole)[0].set(0.5)
    with pytest.raises(TypeError, match=r"^a float32 value would be lost in a int64 tensor; convert one of them: "):
        at(whole)[0].set(torch.tensor(0.5))
    with pytest.raises(TypeError, match="the value 300 would be lost in a uint8 tensor"):
        at(torch.zeros(3, dtype=torch.uint8))[0].set(300)
    with pytest.raises(TypeError, match="the value 2 would be lost in a bool tensor"):
        at(torch.zeros(3, dtype=torch.bool))[0].set(2)
    with pytest.raises(TypeError, match="a complex64 value would be lost in a float32 tensor"):
        at(X)[0].set(torch.zeros(4, dtype=torch.complex64))
    with pytest.raises(TypeError, match="a quotient would be lost in a int64 tensor"):
        at(whole)[0].div(2)
    assert at(whole)[0].set(2.0).tolist() == [2, 0, 0]
    assert at(torch.zeros(2, dtype=torch.bool))[0].set(1).tolist() == [True, False]
    assert at(X)[0].set(torch.ones(4, dtype=torch.float64)).dtype == torch.float32


@pytest.mark.parametrize("index", [0, slice(0, 2), T([0, 1]), X == 0, (0, 0)], ids=str)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_integers_beyond_all_floats(index: Any, requires_grad: bool) -> None:
    for v in (10**400, -(10**400)):
        with pytest.raises(TypeError, match=r"^the value -?10+ would be lost in a float32 tensor; convert x first$"):
            at(X.clone().requires_grad_(requires_grad))[index].set(v)


@pytest.mark.parametrize("name", ["get", "apply"])
def test_what_is_read_is_in_range_as_well(name: str) -> None:
    arguments = [lambda part: part] if name == "apply" else []
    for index, axis, wrong, size in ((T([7]), 0, 7, 3), ((slice(1, None), T([0, -5])), 1, -5, 4)):
        with pytest.raises(IndexError) as caught:
            getattr(at(X)[index], name)(*arguments)
        assert str(caught.value) == f"index {wrong} is out of bounds for axis {axis} with size {size}"


def test_what_else_can_be_wrong() -> None:
    with pytest.raises(TypeError, match=r"^outplace.at takes a tensor, not a list$"):
        at([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"instead of at\(x\)\[i\] = v, x = at\(x\)\[i\].set\(v\)$"):
        at(X)[0] = 1
    with pytest.raises(ValueError, match="the step of the slice for axis 1 is -1"):
        at(X)[:, ::-1].set(0)
    with pytest.raises(TypeError, match=r"use torch\.stack or torch\.cat, which keep their gradients"):
        at(X)[0].set([torch.tensor(1.0)] * 4)
    with pytest.raises(TypeError, match="cannot make a tensor of the value, a str"):
        at(X)[0].set("a")
    with pytest.raises(ValueError, match="the value is on meta and x on cpu; move it with"):
        at(X)[0].set(torch.ones(4, device="meta"))
    assert repr(at(X)[1:]) == "at(<float32[3, 4]>)[slice(1, None, None)]"


def test_functional_takes_plain_functions_only() -> None:
    def generator(x: torch.Tensor) -> Any:
        yield x

    with pytest.raises(TypeError, match="generator is a generator or a coroutine"):
        functional(generator)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("index", [[5], [-9], [[5]], [1], [], (slice(None), [7]), ([1], [7])], ids=str)
def test_where_nothing_is_there_indices_are_right_or_wrong_as_for_numpy(shape: tuple[int, ...], index: Any) -> None:
    numpy = pytest.importorskip("numpy")
    array, x = numpy.zeros(shape), torch.zeros(shape, requires_grad=True)
    parts = index if isinstance(index, tuple) else (index,)
    try:
        array[tuple(numpy.array(part, dtype=int) if isinstance(part, list) else part for part in parts)] = 1.0
    except IndexError:
        expected: Any = pytest.raises(IndexError)
    else:
        expected = contextlib.nullcontext()
    ours = tuple(torch.tensor(part, dtype=torch.int64) if isinstance(part, list) else part for part in parts)
    place = at(x)[ours if isinstance(index, tuple) else ours[0]]
    for update in (lambda: place.set(1.0), lambda: place.set(torch.tensor(1.0, requires_grad=True)), place.get):
        with expected:
            update()
    for name in ("add", "mul", "max"):
        with expected:
            getattr(place, name)(1.0)
