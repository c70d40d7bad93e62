"""Reports on programs with very many tensors, writes and nodes: their time grows with the number, not faster."""

import time

import pytest
import torch

import outplace


@torch.jit.script
def add_unseen(h: torch.Tensor):
    h.add_(1)


def many_tensors(count, w):
    held = [w.exp() for _ in range(count)]
    for h in held:
        h.add_(1)
    return torch.stack([h.sum() for h in held]).sum()


def written_unseen(count, w):
    held = [w.exp() for _ in range(count)]
    with torch.no_grad():
        for h in held:
            add_unseen(h)
    return torch.stack([h.sum() for h in held]).sum()


def many_writes(count, w):
    h = w.exp()
    for _ in range(count):
        h.add_(1)
    return h.sum()


def many_savers(count, w):
    h, losses = w.exp(), []
    for _ in range(count):
        losses.append((h * h).sum())
        h.add_(1)
    return torch.stack(losses).sum()


@pytest.mark.parametrize("program", [many_tensors, written_unseen, many_writes, many_savers])
def test_the_time_of_a_report_is_bounded(program):
    """Comparing each with each took minutes for these."""
    start = time.process_time()
    with outplace.watch() as watched, pytest.raises(RuntimeError, match="modified by an inplace operation"):
        program(5_000, torch.ones(3, requires_grad=True)).backward()
    assert time.process_time() - start < 30
    (found,) = watched.diagnoses
    assert found.kind == "saved" and len(found.mutations) < 2
