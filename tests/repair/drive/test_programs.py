"""Random programs: a repair never breaks one, never changes what it computes, and mends its gradient.

`benchmarks/fuzz_fix.py` does the same at length.
"""

from __future__ import annotations

import pytest
from differences import Forward, close, run, verdict
from in_files import joined, repaired_files
from programs import modules, program

from conftest import repaired

COUNT, AT_ONCE = 1_000, 50


@pytest.mark.parametrize("start", range(0, COUNT, AT_ONCE))
def test_programs(start):
    for seed in range(start, start + AT_ONCE):
        check(seed)


@pytest.mark.parametrize("start", range(0, COUNT // 5, AT_ONCE))
def test_modules_in_two_files(start):
    for seed in range(start, start + AT_ONCE):
        texts = modules(seed)
        if texts is not None:
            answer = verdict(joined(*texts), joined(*repaired_files(*texts)))
            assert not answer.startswith("HARMED"), f"program {seed}: {answer}"


def check(seed: int) -> None:
    source = program(seed)
    fixed = repaired(source).text
    assert not verdict(source, fixed).startswith("HARMED"), f"program {seed}: {verdict(source, fixed)}"
    if seed % 4 == 0:
        assert repaired(fixed).text == fixed, f"program {seed}: a second repair changes it"


WRONG = """import torch

x = torch.ones(3, dtype=torch.float64).requires_grad_()
leaves = [x]
h = x.exp()
h += 1
loss = (h * h).sum()
loss.backward()
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("h += 1", "h = h + 1"), "mended"),
        (("h += 1", "h = h + 2"), "HARMED: the loss"),
        (("h += 1", "h = (h + h.detach()) / 2 + 1"), "HARMED: the gradient"),
        (("x.exp()", "x.exp() * 1"), "mended"),
        (("h * h", "h * h * 1"), "partly"),
        (("", ""), "left"),
    ],
)
def test_the_judge_can_tell(change, expected):
    assert verdict(WRONG, WRONG.replace(*change)).startswith(expected)


def test_a_gradient_that_is_no_number_for_autograd_either_tells_nothing():
    overflows = WRONG.replace("h += 1", "g = (h * 8).exp().exp()\nh += g.tanh()")
    assert verdict(overflows, overflows.replace("h += g.tanh()", "h = h + g.tanh()")) == "unmeasured"


def test_differences_agree_with_autograd_where_autograd_is_right():
    source = WRONG.replace("h += 1", "h = h + 1")
    assert close(run(source).gradients, Forward(source).gradients(), 1.0)
    assert Forward(source).value() == pytest.approx(run(source).loss)
