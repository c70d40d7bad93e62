"""Graphs of very many nodes: a program ends as it does without outplace, and what is near the loss is found."""

from __future__ import annotations

import pytest

from side_by_side import both_forked, write

CHAIN = """
    import torch

    x = torch.ones(3, requires_grad=True)
    data = torch.ones(3)
    y = x
    for _ in range(60_000):
        y = y.exp()
    z = y * data
    {between}
    z.sum().backward()
    del y, z  # frees the chain
    print("end")
"""


@pytest.mark.parametrize("between", ["pass", "data.add_(1)"])
def test_a_long_chain(tmp_path, between):
    program = write(tmp_path, "chain.py", CHAIN.format(between=between))
    expected, actual = both_forked(tmp_path, str(program))
    assert (actual.code, actual.stdout) == (expected.code, expected.stdout)
    assert ("data.add_(1)" in actual.stderr) == (between != "pass")


def test_a_silent_write_near_the_loss_of_a_long_chain(tmp_path):
    program = write(tmp_path, "chain.py", CHAIN.format(between="data.data.add_(1)"))
    expected, actual = both_forked(tmp_path, str(program))
    assert (actual.code, actual.stdout) == (expected.code, expected.stdout) == (0, b"end\n")
    assert "OUT301" in actual.stderr
