"""Of each write: does a gradient pass it as it passes a copy, and does a second one change more? torch answers."""

from __future__ import annotations

import pytest

from outplace.knowledge.derivatives import changes_again, normalises, overwrites, passed_by, rescales

torch = pytest.importorskip("torch")

_WRITES = [
    ("mul_", (3.0,)),
    ("div_", (3.0,)),
    ("remainder_", (2.0,)),
    ("clamp_", (-0.5, 0.5)),
    ("pow_", (3,)),
    ("exp_", ()),
    ("tanh_", ()),
    ("sigmoid_", ()),
    ("relu_", ()),
    ("abs_", ()),
    ("neg_", ()),
    ("square_", ()),
    ("add_", (3.0,)),
    ("sub_", (3.0,)),
    ("fill_", (3.0,)),
    ("zero_", ()),
    ("masked_fill_", (torch.tensor([True, False, False]), 1.0)),
    ("tril_", ()),
    ("round_", ()),
    ("sign_", ()),
    ("floor_", ()),
]


@pytest.mark.parametrize(("name", "arguments"), _WRITES, ids=[name for name, _ in _WRITES])
def test_as_autograd_has_it(name, arguments):
    x = torch.tensor([[-1.3, 0.4, 2.7]] * 2, requires_grad=True)
    y = x.clone()
    getattr(y, name)(*arguments)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    as_a_copy = torch.equal(gradient, torch.ones_like(x))
    assert (rescales(name) or overwrites(name) or passed_by(name)) == (not as_a_copy)


@pytest.mark.parametrize(("name", "arguments"), [*_WRITES, ("floor_divide_", (0.5,))])
def test_what_is_done_twice(name, arguments):
    once = torch.tensor([[-1.3, 0.4, 2.7]] * 2)
    getattr(once, name)(*arguments)
    twice = once.clone()
    getattr(twice, name)(*arguments)
    assert changes_again(name) == (not torch.equal(once, twice) and name != "add_")
    assert normalises(name) or not changes_again(name)


@pytest.mark.parametrize("spelling", ["mul_", "*=", "__imul__", "torch.mul_", "/=", "__itruediv__", "**="])
def test_however_it_is_spelt(spelling):
    assert rescales(spelling)
    assert not rescales("+=")
    assert not overwrites(spelling)
