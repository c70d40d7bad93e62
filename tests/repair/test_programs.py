"""Random programs: a repair never breaks one, never changes what it computes, and mends its gradient."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import program

from conftest import repaired

COUNT = 60


def run(source: str, keep: bool = False) -> tuple[float | None, list[torch.Tensor] | None]:
    """The loss and the gradients; None for what an error prevented. `keep` saves copies, as the program meant it."""
    names: dict[str, Any] = {}
    kept = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if keep:
                with kept:
                    exec(source, names)
            else:
                exec(source, names)
    except RuntimeError:
        loss = names.get("loss")
        return (None if loss is None else loss.item()), None
    zero = torch.zeros(3, 4, dtype=torch.float64)
    return names["loss"].item(), [zero if names[n].grad is None else names[n].grad for n in ("x", "w")]


@pytest.mark.parametrize("seed", range(COUNT))
def test_program(seed):
    check(seed)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1_000, 1_000_000_000))
def test_any_program(seed):
    check(seed)


def check(seed: int) -> None:
    source = program(seed)
    result = repaired(source)
    compile(result.text, "program.py", "exec")
    if result.text == source:
        return
    assert repaired(result.text).text == result.text
    meant, gradients = run(source, keep=True)
    if gradients is None:
        return  # refused where it stands: nothing to compare with
    loss, actual = run(result.text)
    assert loss == pytest.approx(meant, rel=1e-9, nan_ok=True)
    if actual is not None:
        for one, other in zip(actual, gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9, equal_nan=True)
