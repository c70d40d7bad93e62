"""What is done again from C++ is what was done the first time; and it is only done for operands that are alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from outplace import at
from outplace.updates.kernels import again

from .native import module

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

Update = Callable[[Tensor], Tensor]


@pytest.fixture
def started_by_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows with every update that goes the long way to its kernels."""
    on_cuda = pytest.importorskip("outplace.updates.kernels.on_cuda")
    made: list[int] = []
    plain = on_cuda.Steps.__call__
    monkeypatch.setattr(on_cuda.Steps, "__call__", lambda *args: (made.append(0), plain(*args))[1])
    compiled = module()
    assert again.works()
    compiled.forget()
    yield made
    compiled.forget()


def rows(x: Tensor, count: int, *, repeated: bool = False) -> Tensor:
    index = torch.randint(-len(x), len(x), (count,)) if repeated else torch.randperm(len(x))[:count]
    return index.cuda()


def large(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape, device="cuda")


UPDATES: dict[str, tuple[Callable[[], Tensor], Callable[[Tensor], tuple[Any, Any, dict[str, Any]]]]] = {
    # x, and of it an index, a value and what else is said
    "mask": (large(1 << 10, 77), lambda x: (torch.rand(x.shape, device="cuda") < 0.5, 0.5, {})),
    "mask, tensor": (large(1 << 12, 1 << 12), lambda x: (torch.rand_like(x) < 0.5, torch.randn_like(x), {})),
    "mask of rows": (large(1 << 10, 77), lambda x: (torch.rand(len(x), device="cuda") < 0.5, -1, {})),
    "mask of columns": (large(1 << 10, 77), lambda x: (torch.rand(1, x.shape[1], device="cuda") < 0.5, 2.0, {})),
    "strided": (lambda: large(1 << 10, 77)().t(), lambda x: (torch.rand(x.shape, device="cuda") < 0.5, 0.0, {})),
    "few rows to number": (large(50, 8), lambda x: (rows(x, 7), 1.5, {})),
    "rows to number": (large(500, 100), lambda x: (rows(x, 70, repeated=True), -1.5, {})),
    "slice to number": (large(1000), lambda x: (slice(250, 500), 0.5, {})),
    "slice to tensor": (large(1000), lambda x: (slice(-500, None), torch.randn_like(x[500:]), {})),
    "columns": (large(37, 20), lambda x: ((slice(None), slice(3, 7)), torch.randn_like(x[:, 3:7]), {})),
    "one column": (large(37, 20), lambda x: ((slice(None), -2), torch.randn_like(x[:, 3]), {})),
    "one row": (large(37, 20), lambda x: (5, torch.randn_like(x[3]), {})),
    "inner": (large(3, 37, 20), lambda x: ((slice(None), slice(3, 7), slice(None)), torch.randn_like(x[:, 3:7]), {})),
    "few rows": (large(50, 8), lambda x: (rows(x, 7), torch.randn_like(x[:7]), {"unique_indices": True})),
    "rows": (large(500, 100), lambda x: (rows(x, 70), torch.randn_like(x[:70]), {"unique_indices": True})),
    "few repeated": (large(9, 8), lambda x: (rows(x, 20, repeated=True), torch.randn(20, 8, device="cuda"), {})),
    "many repeated": (
        large(90, 20),
        lambda x: (rows(x, 5000, repeated=True), torch.randn(5000, 20, device="cuda"), {}),
    ),
    "repeated": (large(90, 200), lambda x: (rows(x, 200, repeated=True), torch.randn(200, 200, device="cuda"), {})),
    "claimed": (large(900, 20), lambda x: (rows(x, 9000, repeated=True), torch.randn(9000, 20, device="cuda"), {})),
    "elements": (large(5000), lambda x: (rows(x, 700, repeated=True), torch.randn(700, device="cuda"), {})),
}


def expected(x: Tensor, index: Any, value: Any, weights: Tensor) -> list[Tensor]:
    """The result and the gradients, by hand; of several values for a row the last counts."""
    result, to_x = x.clone(), weights.clone()
    to_value = weights[index] if isinstance(value, Tensor) and value.shape != x.shape else None
    if isinstance(index, Tensor) and index.dtype is torch.int64:
        if not isinstance(value, Tensor):
            result[index], to_x[index] = value, 0
            return [result, to_x]
        last = {place % len(x): row for row, place in enumerate(index.tolist())}
        places, chosen = (torch.tensor([*part], device=x.device) for part in (last.keys(), last.values()))
        result[places], to_x[places] = value[chosen], 0
        others = torch.ones(len(index), dtype=torch.bool, device=x.device)
        others[chosen] = False
        to_value[others] = 0
        return [result, to_x, to_value]
    if isinstance(index, Tensor) and isinstance(value, Tensor):
        return [torch.where(index, value, x), torch.where(index, 0, weights), torch.where(index, weights, 0)]
    wide = index.expand_as(x) if isinstance(index, Tensor) and index.dim() == x.dim() else index
    result[wide], to_x[wide] = value, 0
    return [result, to_x] if to_value is None else [result, to_x, to_value]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", UPDATES)
def test_it_is_what_was_done_before(name: str, dtype: torch.dtype, started_by_python: list[int]) -> None:
    torch.manual_seed(0)
    make_x, make_rest = UPDATES[name]
    for turn in range(4):  # other values each time
        x = make_x().to(dtype)
        index, value, said = make_rest(x)
        value = value.to(dtype) if isinstance(value, Tensor) else value + turn
        weights = torch.randn_like(x)
        inputs = [t.clone().requires_grad_() for t in (x, value) if isinstance(t, Tensor)]
        given = inputs[1] if len(inputs) > 1 else value
        started_by_python.clear()
        result = at(inputs[0])[index].set(given, **said)
        assert turn < 2 or not started_by_python, "the third time it is known"
        gradients = torch.autograd.grad(result, inputs, weights)
        assert result.stride() == torch.empty_like(x).stride()
        for ours, theirs in zip([result, *gradients], expected(x, index, value, weights), strict=True):
            assert torch.equal(ours, theirs)
        assert torch.equal(inputs[0], x), "x is never changed"


@pytest.mark.parametrize("shape, count", [((50, 8), 20), ((5000,), 300), ((500, 100), 700)], ids=str)
def test_rows_are_added_again(shape: tuple[int, ...], count: int, started_by_python: list[int]) -> None:
    torch.manual_seed(0)
    for turn in range(4):
        x = torch.randn(shape, device="cuda", requires_grad=True)
        index = rows(x, count, repeated=True)
        v = torch.randn(count, *shape[1:], device="cuda", requires_grad=True)
        started_by_python.clear()
        result = at(x)[index].add(v)
        assert turn < 2 or not started_by_python
        exact = x.detach().double().index_add(0, index % len(x), v.detach().double())
        assert torch.allclose(result.double(), exact, atol=1e-4)
        weights = torch.randn_like(x)
        to_x, to_v = torch.autograd.grad(result, (x, v), weights)
        assert torch.equal(to_x, weights) and torch.equal(to_v, weights[index])


def alike(update: Update, expected: Update, x: Tensor, times: int = 4) -> None:
    for _ in range(times):
        assert torch.equal(update(x), expected(x))
        x = torch.randn_like(x).requires_grad_(x.requires_grad)


def zeroed(x: Tensor) -> Tensor:
    return at(x)[2:4].set(0.0)


def zeroed_by_hand(x: Tensor) -> Tensor:
    return torch.cat([x[:2], torch.zeros_like(x[2:4]), x[4:]])


def test_what_differs_is_not_taken_for_it(started_by_python: list[int]) -> None:
    """One after the other, all with the same index: other shapes, strides, dtypes, alignments, devices, classes."""
    x = torch.randn(8, 6, device="cuda")
    others = [
        x,
        torch.randn(9, 6, device="cuda"),
        torch.randn(8, 6, 1, device="cuda"),
        x.t(),
        torch.randn(8, 12, device="cuda")[:, ::2],
        torch.randn(49, device="cuda")[1:].reshape(8, 6),
        x.bfloat16(),
        x.double(),
        x.long(),
        torch._neg_view(x),
        x.cpu(),
        torch.nn.Parameter(x),
        x.as_subclass(type("Other", (Tensor,), {})),
    ]
    for _ in range(4):
        for other in others:
            update = at(other)[2:4].set(0 if other.dtype is torch.int64 else 0.0)
            assert torch.equal(update, zeroed_by_hand(other)) and type(update) is type(zeroed_by_hand(other))
    sparse = x.to_sparse()
    nested = torch.nested.nested_tensor([x, x[:3]])
    for other in (sparse, nested):
        assert again.lookup(other, slice(2, 4), 0.0, again.SET) is None
    for _ in range(4):
        for index in (1, (1,), slice(1, 2), slice(1, 3, 2), (slice(1, 2), slice(None)), (1, None), (..., 1), True):
            by_hand = x.clone()
            by_hand[index] = 7.0
            assert torch.equal(at(x)[index].set(7.0), by_hand), index
            assert torch.equal(at(x)[index].set(True), torch.where(by_hand == 7, 1, by_hand)), index


def test_gradients_as_they_are_wanted(started_by_python: list[int]) -> None:
    index, weights = torch.tensor([3, 1, 3], device="cuda"), torch.randn(6, 4, device="cuda")
    for _ in range(4):
        for of_x in (True, False):
            for of_v in (True, False):
                x = torch.randn(6, 4, device="cuda", requires_grad=of_x)
                v = torch.randn(3, 4, device="cuda", requires_grad=of_v)
                result = at(x)[index].set(v)
                assert result.requires_grad == (of_x or of_v)
                with torch.no_grad():
                    assert not at(x)[index].set(v).requires_grad
                if of_v:
                    assert torch.equal(result[3], v[2])
                    (to_v,) = torch.autograd.grad(result, v, weights)
                    assert torch.equal(to_v, torch.stack([weights[3] * 0, weights[1], weights[3]]))
    for _ in range(4):
        x, v = torch.randn(6, 4, device="cuda", requires_grad=True), torch.randn(6, 2, device="cuda")
        (to_x,) = torch.autograd.grad(at(x)[:, 1:3].set(v), x, weights.requires_grad_(), create_graph=True)
        (twice,) = torch.autograd.grad((to_x**2).sum(), weights)
        assert torch.equal(twice, 2 * to_x)


def test_whoever_has_to_see_the_operations_sees_them(started_by_python: list[int]) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    x = torch.randn(8, 6, device="cuda")
    alike(zeroed, zeroed_by_hand, x)
    with Names():
        assert torch.equal(zeroed(x), zeroed_by_hand(x))
    assert "copy_" in seen or "fill_" in seen
    assert torch.equal(torch.func.vmap(zeroed)(x[None])[0], zeroed_by_hand(x))
    value, tangent = torch.func.jvp(zeroed, (x,), (torch.ones_like(x),))
    assert torch.equal(value, zeroed_by_hand(x)) and torch.equal(tangent, zeroed_by_hand(torch.ones_like(x)))
    graph = torch.fx.experimental.proxy_tensor.make_fx(zeroed)(x)
    assert torch.equal(graph(x + 1), zeroed_by_hand(x + 1))
    assert torch.equal(torch.compile(zeroed, fullgraph=True)(x), zeroed_by_hand(x))
    x.requires_grad_()
    ones = torch.ones(3, 8, 6, device="cuda")
    (batched,) = torch.autograd.grad(zeroed(x), x, ones, is_grads_batched=True)
    assert torch.equal(batched, zeroed_by_hand(ones[0]).expand(3, 8, 6))


def test_streams_graphs_and_threads(started_by_python: list[int]) -> None:
    x = torch.randn(64, 6, device="cuda")
    alike(zeroed, zeroed_by_hand, x)
    results: list[Tensor] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: results.append(zeroed(x)))
        thread.start()
        thread.join()
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        late = x * 1
        torch.cuda._sleep(50_000_000)
        late += 1  # an update on another stream than this would read what was there before
        results.append(zeroed(late) - 1)
    torch.cuda.current_stream().wait_stream(other)
    assert all(torch.equal(result, zeroed_by_hand(x)) for result in results[:3])
    assert torch.allclose(results[3] + 1, zeroed_by_hand(x + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = zeroed(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(kept, zeroed_by_hand(x))


def test_numbers_of_all_kinds(started_by_python: list[int]) -> None:
    x = torch.zeros(8, device="cuda")
    for value in (1, 2.5, -1e9, float("inf"), -0.0, 2**30, torch.tensor(2.0), torch.tensor(2.0).cuda()):
        by_hand = x.clone()
        by_hand[2:4] = value
        for _ in range(3):
            ours = at(x)[2:4].set(value)
            assert torch.equal(ours, by_hand) and torch.equal(ours.signbit(), by_hand.signbit())
    for value in (1e300, 10**400):
        for _ in range(3):
            with pytest.raises((RuntimeError, TypeError)):
                at(x)[2:4].set(value)


def test_what_is_remembered_does_not_grow_without_end(started_by_python: list[int]) -> None:
    x = torch.randn(4000, device="cuda")
    for stop in [*range(2, 1600)] * 2:
        result = at(x)[1:stop].set(0.0)
    assert torch.equal(result, torch.cat([x[:1], torch.zeros(1598, device="cuda"), x[1599:]]))
