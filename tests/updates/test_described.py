"""What the compiled look-up takes for the same update: tried on a CPU, with recipes that start no kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.fx.experimental.proxy_tensor
from torch import Tensor
from torch.autograd import forward_ad

from outplace.updates.kernels import again, function

from .native import module


@pytest.fixture(autouse=True)
def _connected_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(again, "lookup", again.lookup)  # which is put back afterwards
    monkeypatch.setattr(again, "_works", None)  # who has a CUDA device connects to it again
    again.connect(module(), on_cuda=False)
    yield
    module().forget()


X = torch.linspace(0, 1, 48).reshape(6, 8)
MASK, ROWS = X > 0.5, torch.tensor([1, 2])


def known(x: Tensor, index: Any, value: Any, how: int = again.SET) -> str | None:
    """Is the update made as before, without autograd or recorded by it?"""
    result = module().lookup(x, index, value, how)
    if result is None:
        return None
    assert result.shape == x.shape and result.stride() == torch.empty_like(x).stride() and result.dtype is x.dtype
    return "made" if result.grad_fn is None else "recorded"


def learn(x: Tensor, index: Any, value: Any, how: int = again.SET, shape: list[int] | None = None) -> None:
    module().remember(x, index, value, how, function.set_number.number, module().Recipe((), (), (shape,), 0))


def test_nothing_is_known_before() -> None:
    assert known(X, MASK, 0.0) is None
    assert not module().seen(X, MASK, 0.0, again.SET)
    assert module().seen(X, MASK, 0.0, again.SET), "now for the second time"
    assert known(X, MASK, 0.0) is None, "seen is not known"
    learn(X, MASK, 0.0)
    assert known(X, MASK, 0.0) == "made"
    assert not module().seen(X, MASK, 0.0, again.SET), "what is known needs no learning"
    module().forget()
    assert known(X, MASK, 0.0) is None


INDICES = {
    "mask": MASK,
    "rows": ROWS,
    "int": 1,
    "slice": slice(1, 3),
    "column": (slice(None), 2),
    "last": (..., 2),
    "new": None,
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
@pytest.mark.parametrize("value", [0.5, 3, torch.rand(2, 8)], ids=["float", "int", "tensor"])
def test_other_values_in_the_same_places_are_the_same(index: Any, value: Any) -> None:
    learn(X, index, value)
    other = torch.rand(2, 8) if isinstance(value, Tensor) else 7.5
    again_index = index.clone() if isinstance(index, Tensor) else index
    assert known(torch.rand(6, 8), again_index, other) == "made"
    learn(torch.nn.Parameter(X), index, value)
    assert known(torch.rand(6, 8).requires_grad_(), again_index, other) == "recorded"


def test_what_differs_is_another_update() -> None:
    learn(X, ROWS, 0.5)
    others: list[tuple[Any, Any, Any]] = [
        (X[:5], ROWS, 0.5),
        (X.t(), ROWS, 0.5),
        (torch.rand(6, 16)[:, ::2], ROWS, 0.5),
        (torch.rand(6, 8, 1), ROWS, 0.5),
        (X.double(), ROWS, 0.5),
        (X.bfloat16(), ROWS, 0.5),
        (torch.rand(49)[1:].reshape(6, 8), ROWS, 0.5),  # its first element does not lie at a multiple of 16 bytes
        (torch._neg_view(X), ROWS, 0.5),
        (X.as_subclass(type("Other", (Tensor,), {})), ROWS, 0.5),
        (X, ROWS.int(), 0.5),
        (X, ROWS[:1], 0.5),
        (X, ROWS[None], 0.5),
        (X, torch.tensor([1, 0, 2])[::2], 0.5),
        (X, [1, 2], 0.5),
        (X, (ROWS,), 0.5),
        (X, ROWS, True),
        (X, ROWS, 1j),
        (X, ROWS, "0.5"),
        (X, ROWS, torch.tensor(0.5)),
        (X, ROWS, None),
    ]
    for x, index, value in others:
        assert known(x, index, value) is None
    assert known(X, ROWS, 0.5, again.SET_UNIQUE) is None
    assert known(X, ROWS, 0.5) == "made"


def test_indices_that_look_alike() -> None:
    indices: list[Any] = [
        1,
        (1,),
        slice(1),
        slice(1, None),
        (slice(1, None),),
        slice(None, None, 1),
        (1, None),
        (None, 1),
    ]
    indices += [(1, ...), (..., 1), (None, 1, None), slice(1, 2), (1, 2), (1, 2, None)]
    for number, index in enumerate(indices):
        for other in indices[:number]:
            assert known(X, index, 0.5) is None, (index, other)
        learn(X, index, 0.5)
    learn(X, (1,) * 9, 0.5)
    assert known(X, (1,) * 9, 0.5) is None, "too many to be worth it"
    for index in (
        2**70,
        (slice(2**70),),
        True,
        1.0,
        "1",
        [1],
        slice(1.0),
        slice(True),
        (slice("a"),),
        (True,),
        (1.0,),
        torch.Size([1]),
    ):
        assert known(X, index, 0.5) is None, index


@pytest.mark.parametrize(
    "dtype, most",
    [(torch.float32, 3.4028234663852886e38), (torch.bfloat16, 3.3895313892515355e38), (torch.float16, 65504)],
)
def test_numbers_that_the_dtype_cannot_hold(dtype: torch.dtype, most: float) -> None:
    assert most == torch.finfo(dtype).max
    x = X.to(dtype)
    learn(x, MASK, 0.0)
    for value in (most, -most, float("inf"), float("nan"), 0, -1, 65504):
        assert known(x, MASK, value) == "made", value
    for value in (most * 1.01, -most * 1.01, 10**39, 10**400):
        assert known(x, MASK, value) is None, value


def test_gradients_as_they_are_wanted() -> None:
    x, v = X.clone().requires_grad_(), torch.rand(2, 8, requires_grad=True)
    for number, (one, other) in enumerate(((X, v.detach()), (x, v.detach()), (X, v), (x, v))):
        assert known(one, ROWS, other) is None, "the others do not tell"
        learn(one, ROWS, other)
        assert known(one, ROWS, other) == ("recorded" if number else "made")
    with torch.no_grad():
        assert known(x, ROWS, v) == "made"
    module().remember(X, ROWS, 0.5, again.TAKE, None, module().Recipe((), (), (None,), 0))
    assert known(X, ROWS, 0.5, again.TAKE) == "made" and known(x, ROWS, 0.5, again.TAKE) is None


def test_whoever_watches() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    before: list[Any] = []
    learn(X, MASK, 0.5)
    with Mode():
        assert known(X, MASK, 0.5) is None
    with forward_ad.dual_level():
        assert known(forward_ad.make_dual(X, X), MASK, 0.5) is None
    torch.fx.experimental.proxy_tensor.make_fx(
        lambda x: (before.append(known(x, MASK, 0.5)), before.append(known(X, MASK, 0.5)), x + 1)[2], pre_dispatch=True
    )(X)
    assert before == [None, None]
    kept: list[Tensor] = []
    torch.func.vmap(lambda x: (kept.append(x), kept.append(known(X, MASK, 0.5)), x)[2])(X)
    assert kept[1] is None
    assert known(kept[0], MASK, 0.5) is None, "what is left of a transform has no memory"
    torch.use_deterministic_algorithms(True)
    try:
        assert known(X, MASK, 0.5) is None
    finally:
        torch.use_deterministic_algorithms(False)
    assert known(X, MASK, 0.5) == "made"


def test_tensors_without_strides() -> None:
    learn(X, slice(2, 4), 0.5)
    assert known(X.to_sparse(), slice(2, 4), 0.5) is None
    assert known(torch._efficientzerotensor(6, 8), slice(2, 4), 0.5) is None
    assert known(X.to("meta"), slice(2, 4), 0.5) is None
    assert known(torch.nested.nested_tensor([X, X[:3]]), slice(2, 4), 0.5) is None


def test_errors_are_not_swallowed() -> None:
    learn(X, MASK, 0.5, shape=[-1])
    with pytest.raises(RuntimeError, match="negative"):
        known(X, MASK, 0.5)
    with pytest.raises(TypeError, match="takes x, the index, the value"):
        module().lookup(X, MASK)
    with pytest.raises(TypeError):
        module().lookup(X, MASK, 0.5, "how")
    with pytest.raises(TypeError):
        module().Recipe([])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver")
def test_without_a_driver_there_are_no_recipes() -> None:
    with pytest.raises(ValueError, match="driver"):
        module().Recipe(((7, 1, 1, 128, 0, ()),), (), (None,), 0)


def test_what_is_remembered_has_an_end() -> None:
    for size in range(3000):
        module().seen(X, slice(0, size), 0.5, again.SET)
    learn(X, MASK, 0.5)
    assert known(X, MASK, 0.5) == "made"
    assert not module().seen(X, slice(0, 1), 0.5, again.SET), "it was forgotten"


@pytest.mark.skipif(torch.__version__ < (2, 7), reason="there the C++ is not used, for this reason")
def test_compiled_autograd_sees_what_becomes_of_the_gradient() -> None:
    from torch._dynamo import compiled_autograd

    enabled = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
    weights, part = torch.rand(6, 8), (slice(None), slice(2, 5))
    for index, size, kind in ((ROWS, (2, 8), function.set_rows), (part, (6, 3), function.set_part)):
        x, v = X.clone().requires_grad_(), torch.rand(size, requires_grad=True)
        module().remember(x, index, v, again.SET, kind.number, module().Recipe((), (), (None,), 0))
        result = module().lookup(x, index, v, again.SET)
        with enabled(lambda graph: torch.compile(graph, backend="aot_eager", fullgraph=True)):
            result.backward(weights)
        expected = weights.clone()
        expected[index] = 0
        assert torch.equal(x.grad, expected) and torch.equal(v.grad, weights[index])


def test_whoever_counts_what_is_saved() -> None:
    """A checkpoint does: what an update saves must not depend on how often it came."""
    learn(X, ROWS, 0.5)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert known(X, ROWS, 0.5) is None
        assert not module().seen(X, MASK, 0.5, again.SET) and not module().seen(X, MASK, 0.5, again.SET)
    assert known(X, ROWS, 0.5) == "made"


def test_the_name_of_the_node() -> None:
    x = X.clone().requires_grad_()
    learn(x, ROWS, 0.5)
    assert "grad_fn=<UpdateBackward>" in repr(module().lookup(x, ROWS, 0.5, again.SET))


def test_nothing_is_leaked() -> None:
    import gc
    import sys

    learn(X, (slice(1, 3), 2), 0.5)
    index, x, value = (slice(1, 3), 2), torch.rand(6, 8), 0.25
    before = [sys.getrefcount(thing) for thing in (x, index, value, index[0])]
    for _ in range(100):
        assert known(x, index, value) == "made"
        assert known(x, [1], value) is None and known(x, (1.0,), value) is None and known(x, MASK, "") is None
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (x, index, value, index[0])] == before
