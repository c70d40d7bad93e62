"""Of one tensor either all writes are fixed, or none: a program that still fails is no help."""

import pytest

from conftest import repaired

WRITES = """import torch

w = torch.rand(3, 4).requires_grad_()


def f(w):
    seen = []
    h = w * w
    seen.append(h)
    h.tril_()
    h /= h * h + 1
    for row in h:
        row.mul_(2)
    h.masked_fill_(h > 0.8, 0.3)
    torch.exp(h, out=h)
    return (h * h).sum() + sum(part.sum() for part in seen)


f(w).backward()
"""
"""`out=` is not fixed: `seen` must see what `exp` computes."""


def test_one_write_that_cannot_be_fixed_keeps_the_others():
    result = repaired(WRITES)
    assert result.text == WRITES and not result.done
    assert {finding.kind for finding in result.left} > {"out-arg"}


def test_without_it_all_are_fixed():
    result = repaired(WRITES.replace("    torch.exp(h, out=h)\n", ""))
    exec(compile(result.text, "program.py", "exec"), {})
    assert not result.left


def test_the_program_fails_as_it_was_written():
    with pytest.raises(RuntimeError, match=r"don't support automatic differentiation"):
        exec(compile(WRITES.replace("    for row in h:\n        row.mul_(2)\n", ""), "program.py", "exec"), {})


UNCOVERED = """import torch

w = torch.rand(3, 4).requires_grad_()
h = w * w
h[0] = 0.5
g = torch.sqrt(h * h + 1)
torch.exp(h, out=h)
h.add_(1)
(h.sum() + g.sum()).backward()
"""
"""Once `out=` is gone, `exp` saves its result, and the next line overwrites it."""


def test_what_a_repair_uncovers_is_fixed_with_it():
    result = repaired(UNCOVERED)
    exec(compile(result.text, "program.py", "exec"), {})
    assert not result.left
    assert repaired(result.text).text == result.text
