"""`at` under torch.compile, in one graph: the same values and gradients as without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from outplace import at, blend, functional, to_mask

T = torch.tensor
CASES: dict[str, tuple[str, Any]] = {
    "a slice": ("set", slice(1, 3)),
    "a mask": ("set", torch.rand(4, 5, generator=torch.Generator().manual_seed(1)) < 0.5),
    "rows": ("mul", T([True, False, True, True])),
    "repeated": ("set", T([1, 1, 3, -1])),
    "repeated, times": ("mul", T([1, 1, 3, -1])),
    "repeated, largest": ("max", T([1, 1, 3, -1])),
    "added": ("add", (slice(1, 4), T([0, 0, 4]))),
    "a number": ("div", T(2)),
}


def both(function: Any, *arguments: torch.Tensor, backend: str) -> None:
    """Values and gradients, compiled and not."""
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    inputs = [a.clone().requires_grad_() if a.is_floating_point() else a for a in arguments]
    wanted = [a for a in inputs if a.requires_grad]
    weights = torch.rand_like(function(*arguments))
    results = []
    for call in (function, compiled):
        result = call(*inputs)
        results.append((result, *torch.autograd.grad(result, wanted, weights)))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other)


@pytest.mark.parametrize("case", sorted(CASES))
def test_one_graph_with_the_same_gradients(case: str) -> None:
    name, index = CASES[case]
    x = torch.rand(4, 5) + 0.5
    both(lambda x, v: getattr(at(x)[index], name)(v), x, torch.rand_like(x[index]) + 0.5, backend="aot_eager")


@pytest.mark.parametrize("index", [slice(1, 3), slice(-3, None, 2), (slice(None), slice(3, 1)), 2, (..., -1)], ids=str)
def test_numbers_in_a_part(index: Any) -> None:
    both(lambda x: at(x)[index].set(0.5), torch.rand(4, 5), backend="aot_eager")


def test_indices_that_change_from_call_to_call() -> None:
    torch._dynamo.reset()
    x = torch.rand(6, 5)

    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def updated(x: torch.Tensor, row: int, pair: torch.Tensor) -> torch.Tensor:
        return at(at(at(x)[row].set(0.5))[row, pair].mul(3.0))[pair[0], pair[1]].add(1.0)

    for row, pair in ((2, T([0, 1])), (3, T([2, -1])), (4, T([1, 1]))):
        expected = x.clone()
        expected[row] = 0.5
        for column in pair.tolist():
            expected[row, column] *= 3
        expected[tuple(pair.tolist())] += 1
        assert torch.allclose(updated(x, row, pair), expected)


@pytest.mark.parametrize("name", ["set", "add", "mul"])
@pytest.mark.parametrize("index", [T([1, 1, 3, -1]), slice(1, 3), -1, T([True, False, True, True]), [0, -1]], ids=str)
def test_tracers_record_no_attempt_that_failed(index: Any, name: str) -> None:
    """After one make_fx gives a graph that fails, and torch.jit.trace ends the process."""
    x = torch.rand(4, 5)
    v = torch.rand_like(x[index])

    def update(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return getattr(at(x)[index], name)(v)  # type: ignore[no-any-return]

    for traced in (make_fx(update)(x, v), torch.jit.trace(update, (x, v), check_trace=False)):
        assert torch.allclose(traced(x + 1, v + 1), update(x + 1, v + 1))


def test_values_in_the_order_of_a_mask_need_no_look_at_it() -> None:
    x, mask = torch.rand(4, 5), T([True, False, True, False])
    both(lambda x, mask, v: at(x)[mask].set(v), x, mask, torch.rand(2, 5), backend="aot_eager")


def test_transforms_inside_a_compiled_function() -> None:
    x, index, v = torch.rand(4, 5), T([1, 1, 0]), torch.rand(2, 3, 5)

    def gradients(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        def loss(v: torch.Tensor) -> torch.Tensor:
            return (at(x)[index].set(v) ** 2).sum()

        return torch.func.vmap(torch.func.grad(loss))(v)

    compiled = torch.compile(gradients, fullgraph=True, backend="aot_eager")(x, v)
    assert torch.allclose(compiled, gradients(x, v)) and bool((compiled[:, 0] == 0).all())


def test_inductor() -> None:
    x, mask = torch.rand(40, 5), torch.rand(40, 5) < 0.5

    def several(x: torch.Tensor, mask: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x = at(x)[mask].set(0.0)
        x = at(x)[:, 1:3].set(v[:, 1:3])
        x = at(x)[T([3, 3])].add(v[:2])
        return blend(x, to_mask(0, like=x), v)

    both(several, x, mask, torch.rand(40, 5), backend="inductor")


def test_functional_compiles() -> None:
    @functional
    def scaled(x: torch.Tensor) -> torch.Tensor:
        x *= 2
        x[0] = 1
        return x

    both(scaled, torch.rand(3, 2), backend="aot_eager")
