"""Operators of `torch.library`: each write is named at the call, with the line inside the operator as a detail."""

import threading
import traceback

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import outplace
from outplace.runtime.record import operator_calls


@torch.library.custom_op("outplace_tests::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, k: float) -> None:
    if k < 0:
        raise ValueError("negative")
    x.mul_(k)
    x.add_(1)


@torch.library.custom_op("outplace_tests::outer_", mutates_args={"x"})
def outer_(x: torch.Tensor) -> None:
    scale_(x, 2.0)


INSIDE = [["x.mul_(k)"], ["x.add_(1)"]]
"""The writes of `scale_`. On torch 2.6 the version of a tensor moves once for all writes inside an operator."""


def fail(call, **options):
    """The diagnosis of a program that overwrites what `sigmoid` has saved."""
    with outplace.watch(**options) as watched, pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y = torch.ones(3, requires_grad=True).sigmoid()
        call(y)
        y.sum().backward()
    (found,) = watched.diagnoses
    assert found.notes == (), "every change of the version is explained"
    return found


def twofold(y):
    scale_(y, 2.0)


def by_full_name(y):
    torch.ops.aten.mul_.Tensor(y, y.detach() + 1)


def into_itself(y):
    torch.ops.aten.exp.out(y.detach(), out=y.detach())


def test_the_call_and_the_line_inside():
    found = fail(twofold)
    (mutation,) = found.mutations
    assert (mutation.operation, mutation.site.text, mutation.count) == ("scale_", "scale_(y, 2.0)", 1)
    assert [site.text for site in mutation.chain] in INSIDE


def test_each_call_counts_once():
    def twice(y):
        for _ in range(2):
            torch.ops.outplace_tests.scale_(y, k=2.0)

    (mutation,) = fail(twice).mutations
    assert (mutation.site.text, mutation.count) == ("torch.ops.outplace_tests.scale_(y, k=2.0)", 2)


def test_an_operator_that_calls_another():
    (mutation,) = fail(outer_).mutations
    assert (mutation.operation, mutation.site.text) == ("outer_", "call(y)")
    (call, *inside) = (site.text for site in mutation.chain)
    assert call == "scale_(x, 2.0)" and inside in INSIDE


def test_an_operator_of_torch_by_its_full_name():
    (mutation,) = fail(by_full_name).mutations
    assert mutation.site.text == "torch.ops.aten.mul_.Tensor(y, y.detach() + 1)"
    (mutation,) = fail(into_itself).mutations
    assert mutation.site.text.startswith("torch.ops.aten.exp.out(")


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("write", [lambda y: y.mul_(2), lambda y: scale_(y, 2.0)], ids=["method", "operator"])
def test_a_mode_that_carries_out_the_operation_is_not_named(write):
    def under_a_mode(y):
        with Passing():
            write(y)

    (mutation,) = fail(under_a_mode).mutations
    assert mutation.site.function.endswith("<lambda>") and mutation.count == 1


def test_an_operator_that_raises():
    with outplace.watch() as watched, pytest.raises(ValueError, match="negative") as caught:
        scale_(torch.ones(3), -1.0)
    assert not watched.diagnoses and not operator_calls.running
    assert "outplace/runtime" not in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_call_in_another_thread_is_not_this_threads():
    """While one thread is inside an operator, another writes the same memory: that line is its own."""
    inside, written = threading.Event(), threading.Event()

    @torch.library.custom_op("outplace_tests::wait_", mutates_args={"x"})
    def wait_(x: torch.Tensor) -> None:
        inside.set()
        written.wait(10)

    with outplace.watch() as watched, pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y = torch.ones(3, requires_grad=True).sigmoid()
        thread = threading.Thread(target=wait_, args=(y.detach(),))
        thread.start()
        inside.wait(10)
        y.detach().mul_(2)
        written.set()
        thread.join()
        y.sum().backward()
    texts = {mutation.site.text for mutation in watched.diagnoses[0].mutations if mutation.site}
    assert "y.detach().mul_(2)" in texts


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_in_a_compiled_region(backend):
    torch.compiler.reset()

    @torch.compile(backend=backend)
    def region(y):
        scale_(y, 2.0)
        return y + 1

    (mutation,) = fail(region).mutations
    assert mutation.site.text in ("scale_(y, 2.0)", "call(y)")


def test_the_same_results_and_no_trace():
    before = torch._ops.OpOverload.__call__.__code__
    x, alone = torch.ones(3), torch.ones(3)
    scale_(alone, 3.0)
    with outplace.watch():
        scale_(x, 3.0)
    assert x.tolist() == alone.tolist() == [4.0] * 3 and x._version == alone._version
    assert torch._ops.OpOverload.__call__.__code__ is before
