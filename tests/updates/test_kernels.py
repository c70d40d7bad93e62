"""Our own kernels give bit for bit what `torch.where` gives; so do their gradients."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outplace import at
from outplace.updates import autograd, cpu_masks, cuda_kernels, masked_set, mode, parts
from outplace.updates.strides import collapsed

from .indices import low_thresholds, tensors

CUDA = torch.cuda.is_available()
NEEDS_CUDA = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)]


def kernels(device: str) -> Any:
    """The module with the kernels for masks."""
    if device == "cpu":
        return cpu_masks
    pytest.importorskip("triton")
    return cuda_kernels


def operands(dtype: torch.dtype, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """x and a mask: contiguous, odd sizes, transposed, with gaps, and masks that broadcast."""
    torch.manual_seed(0)
    x = torch.randn(5, 7, 11).to(dtype)
    x[0, 0] = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf")] + [1.0] * 6)
    xs = [x, x.transpose(0, 2), x[:, ::2], x[0, 0], x[:, :1].expand(5, 7, 11)]
    pairs = [(x, torch.rand(x.shape) < 0.5) for x in xs]
    pairs += [
        (x, torch.rand(5, 1, 11) < 0.5),
        (x, torch.rand(1, 7, 1) < 0.5),
        (x.permute(2, 0, 1), torch.rand(11, 5, 7) < 0.5),
    ]
    return [(x.to(device), mask.to(device)) for x, mask in pairs]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        a.dtype == b.dtype and torch.equal(a.signbit(), b.signbit()) and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_kernels_are_where(dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = kernels(device)
    if dtype not in ours.DTYPES:
        pytest.skip("there is no kernel for this dtype")
    monkeypatch.setattr(cpu_masks, "BLOCK", 16)
    monkeypatch.setattr(cpu_masks, "GRAIN", 1)
    monkeypatch.setattr(cuda_kernels, "BYTES", 0)
    for x, mask in operands(dtype, device):
        wide = mask.expand(x.shape)
        for number in (0.0, 0.1, -1, float("inf"), float("nan")):
            assert same_bits(ours.set_number(x, wide, number), torch.where(mask, number, x))
        if device == "cpu":
            v = torch.randn(x.shape).to(dtype)
            assert same_bits(ours.set_tensor(x, wide, v), torch.where(mask, v, x))
        else:
            assert ours.set_number(x, mask, 0.1).stride() == torch.empty_like(x).stride()
        outside, inside = autograd.split(x, mask)
        assert same_bits(outside, torch.where(mask, 0.0, x)) and same_bits(inside, torch.where(mask, x, 0.0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", ["number", "0-d", "row", "full"])
def test_the_gradients_are_those_of_where(shape: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    low_thresholds(monkeypatch)
    kernels(device)
    for x, mask in operands(torch.float32, device):
        x = x.nan_to_num(1, 2, 3)
        v = {"number": 0.5, "0-d": torch.rand(()), "row": torch.rand(x.shape[-1]), "full": torch.rand(x.shape)}[shape]
        results = []
        for update in (
            lambda x, v, m=mask: masked_set.masked_set(x, m, v),
            lambda x, v, m=mask: torch.where(m, v, x),
        ):
            inputs = [t.detach().clone().to(device).requires_grad_() for t in (x, v) if isinstance(t, torch.Tensor)]
            weights = torch.linspace(1, 2, x.numel(), device=device).reshape(x.shape).requires_grad_()
            result = update(inputs[0], inputs[1] if len(inputs) > 1 else v)
            first = torch.autograd.grad(result, inputs, weights, create_graph=True)
            second = torch.autograd.grad(sum((g * g).sum() for g in first), weights)
            results.append((result, *first, *second))
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other)


@pytest.mark.parametrize("device", DEVICES)
def test_any_byte_but_zero_is_true(device: str) -> None:
    """Masks that come from images have 255, where PyTorch itself writes 1."""
    ours = kernels(device)
    for x, mask in operands(torch.float32, device):
        bytes_ = torch.where(mask.expand(x.shape), 255, 0).to(torch.uint8)
        odd, mask = bytes_.view(torch.bool), bytes_ != 0
        assert same_bits(ours.set_number(x, odd, 0.1), torch.where(mask, 0.1, x))
        if device == "cpu":
            assert same_bits(ours.set_tensor(x, odd, -x), torch.where(mask, -x, x))
        for one, other in zip(ours.split(x, odd), ours.split(x, mask), strict=True):
            assert same_bits(one, other)


def test_what_has_no_memory_of_its_own_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minus of a view that negates is not in memory, and what came out of a transform that has ended has none."""
    low_thresholds(monkeypatch)
    x, kept = torch.randn(6), []
    torch.func.grad(lambda x: (kept.append(x * 1), x.sum())[1])(x)
    assert not mode.seen_only_by_autograd(kept[0]) and torch.equal(at(kept[0])[x > 0].set(0.0), x.clamp(max=0))
    lazy = torch._neg_view(x)
    assert not mode.seen_only_by_autograd(lazy) and torch.equal(at(lazy)[x > 0].set(0.0), (-x).clamp(min=0))
    assert torch.equal(at(x)[x > 0].set(lazy), -x.abs())


@NEEDS_CUDA
def test_a_kernel_is_started_for_tensors_that_lie_as_those_it_was_compiled_for() -> None:
    """Now x is not aligned, now the mask: the sum of what is wrong is the same, but not where a kernel reads widely."""
    for start_of_x, start_of_mask in ((1, 0), (0, 4), (1, 4)):
        x = torch.randn(4096 + start_of_x, device="cuda")[start_of_x:]
        mask = (torch.rand(4096 + start_of_mask, device="cuda") < 0.5)[start_of_mask:]
        assert torch.equal(cuda_kernels.set_number(x, mask, 0.5), torch.where(mask, 0.5, x))
        torch.cuda.synchronize()


@NEEDS_CUDA
@pytest.mark.parametrize("width", [1, 3, 8, 100, 3000])
@pytest.mark.parametrize("entries", [0, 1, 63, 64, 65, 1000, 5000, 9000])
def test_rows_at_random_places(entries: int, width: int) -> None:
    """Many of them more than once: set, the last counts, and added, all do."""
    torch.manual_seed(entries)
    index = torch.randint(-50, 50, (entries,))
    x, v = torch.randn(50, width, requires_grad=True), torch.randn(entries, width, requires_grad=True)
    weights = torch.randn(50, width)
    set_, added = x.detach().clone(), x.detach().double()
    to_x, to_v = weights.clone(), torch.zeros(entries, width)
    row_of = {place % 50: row for row, place in enumerate(index.tolist())}
    for place, row in row_of.items():
        set_[place], to_x[place], to_v[row] = v.detach()[row], 0, weights[place]
    added.index_add_(0, index % 50, v.detach().double())
    there = [t.detach().cuda().requires_grad_() for t in (x, v)]
    result = at(there[0])[index.cuda()].set(there[1])
    assert torch.equal(result.cpu(), set_)
    for ours, theirs in zip(torch.autograd.grad(result, there, weights.cuda()), (to_x, to_v), strict=True):
        assert torch.equal(ours.cpu(), theirs)
    result = at(there[0])[index.cuda()].add(there[1])
    assert torch.allclose(result.cpu().double(), added, atol=1e-3)
    for ours, theirs in zip(torch.autograd.grad(result, there, weights.cuda()), (weights, weights[index]), strict=True):
        assert torch.equal(ours.cpu(), theirs)


@NEEDS_CUDA
def test_rows_that_are_named_twice_are_added_twice() -> None:
    x = torch.zeros(1 << 14, 1 << 11, device="cuda")
    index = torch.tensor([3, -1, 3, 3], device="cuda")
    v = torch.ones(4, 1 << 11, device="cuda", requires_grad=True)
    result = at(x)[index].add(v)
    assert result[3].eq(3).all() and result[-1].eq(1).all() and result.sum() == 4 << 11


def test_modes_and_transforms_see_the_operation() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    x = torch.rand(masked_set.SMALL_ON_CPU)
    mask = x > 0.5
    expected = torch.where(mask, 0.0, x)
    with Names():
        assert torch.equal(at(x)[mask].set(0.0), expected)
    assert "where" in seen and not any(name.startswith("bitwise") for name in seen)
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: at(x)[mask].set(0.0))(x)
    assert torch.equal(graph(x), expected) and torch.equal(graph(x + 1), torch.where(mask, 0.0, x + 1))
    assert torch.equal(torch.func.vmap(lambda x: at(x)[mask].set(0.0))(x[None])[0], expected)
    batched = torch.autograd.grad(
        at(x.requires_grad_())[mask].set(0.0), x, torch.ones(2, len(x)), is_grads_batched=True
    )[0]
    assert torch.equal(batched, (~mask).float().expand(2, -1))


@given(tensors(most=5), st.data())
def test_collapsed_dimensions_walk_every_element(x: torch.Tensor, data: st.DataObject) -> None:
    shape = [data.draw(st.sampled_from((1, size))) for size in x.shape]
    other = torch.rand(shape).expand(x.shape)
    out = torch.empty_like(x)
    places = [(0, 0)]
    for size, strides in collapsed(out, [x, other]):
        places = [(a + i * strides[0], b + i * strides[1]) for a, b in places for i in range(size)]
    order = sorted(range(x.dim()), key=lambda dim: -out.stride(dim))
    for operand, which in ((x, 0), (other, 1)):
        offset = torch.as_strided(torch.arange(1 << 12), operand.shape, operand.stride())
        assert [place[which] for place in places] == offset.permute(order).reshape(-1).tolist()


@pytest.mark.parametrize("index", [slice(1, 3), slice(None, 2), slice(2, None), slice(0, 4), slice(-2, -1), 1, -4])
@pytest.mark.parametrize(
    "device, dim",
    [*(("cpu", dim) for dim in range(3)), *(pytest.param("cuda", dim, marks=NEEDS_CUDA) for dim in range(3))],
)
@pytest.mark.parametrize("size", ["small", "middle", "large"])
def test_parts_are_slices(
    index: slice | int, dim: int, device: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == "large":
        low_thresholds(monkeypatch)
    elif size == "middle":  # too large for cat, too small for kernels
        for name in ("CAT", "CAT_RECORDED", "CAT_BLOCK"):
            monkeypatch.setattr(parts, name, 0)
    shape = [3, 40, 5]
    shape.insert(dim, 4)
    item = (slice(None),) * dim + (index,)
    x = torch.rand(shape, device=device, requires_grad=True)
    v = torch.rand(x[item].shape, device=device, requires_grad=True)
    for value in (v, 0.5, torch.tensor(2.0, device=device)):
        result = parts.replaced(x, dim, index, value)
        expected = x.clone()
        expected[item] = value
        assert result is not None and torch.equal(result, expected)
    half = torch.zeros(6, dtype=torch.float16, device=device)
    with contextlib.suppress(RuntimeError):  # of an older torch, which refuses the number
        expected = half.clone()
        expected[1:3] = -1e9
        assert torch.equal(parts.replaced(half, 0, slice(1, 3), -1e9), expected)
    for whole in (torch.zeros(6, dtype=torch.bool, device=device), torch.zeros(6, dtype=torch.int64, device=device)):
        assert parts.replaced(whole, 0, slice(1, 3), True).tolist() == [0, 1, 1, 0, 0, 0]
    flat, number = torch.rand(6, device=device), torch.tensor(2.0, device=device)
    assert torch.equal(parts.replaced(flat, 0, 2, number), torch.cat([flat[:2], number[None], flat[3:]]))
    weights = torch.rand(shape, device=device)
    got = torch.autograd.grad(at(x)[item].set(v), (x, v), weights)
    outside = weights.clone()
    outside[item] = 0
    assert torch.equal(got[0], outside) and torch.equal(got[1], weights[item])


@pytest.mark.parametrize("item", [slice(1, 3), slice(0, 4), slice(2, 2), 0, 3], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_parts_by_cat_under_transforms(item: slice | int, dim: int) -> None:
    """On CUDA small parts go by `cat`, whoever watches; the operations are the same on the CPU."""
    start, stop = (item, item + 1) if isinstance(item, int) else (item.start, item.stop)
    index = (slice(None),) * dim + (item,)

    def by_cat(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        result = parts._cat(x, dim, start, stop, isinstance(item, int), v)
        assert result is not None
        return result

    def by_hand(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(4, 4, dtype=torch.bool)
        mask[index] = True
        places = torch.zeros(4, 4, dtype=torch.long)
        places[index] = torch.arange(v.numel()).reshape(v.shape)
        return torch.where(mask, v.reshape(-1)[places] if v.numel() else x, x)

    x = torch.rand(4, 4)
    v = torch.rand(x[index].shape)
    assert torch.equal(by_cat(x, v), by_hand(x, v))
    for in_dims in ((0, None), (0, 0), (None, 0)):
        batch = [
            tensor.expand(3, *tensor.shape).clone() if axis == 0 else tensor
            for tensor, axis in zip((x, v), in_dims, strict=True)
        ]
        ours, theirs = (torch.func.vmap(update, in_dims)(*batch) for update in (by_cat, by_hand))
        assert torch.equal(ours, theirs)
    weights = torch.rand(4, 4)
    for derive in (torch.func.grad, torch.func.jacfwd, torch.func.jacrev):
        ours, theirs = (derive(lambda x, v, f=f: (f(x, v) * weights).sum(), (0, 1))(x, v) for f in (by_cat, by_hand))
        assert all(map(torch.equal, ours, theirs))
