"""The guard: it finds what leaves no trace, names the line, changes nothing, and raises no false alarm."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import forks
import outplace
from outplace.runtime.record.snapshots import fingerprint


def clobber(tensor: torch.Tensor) -> None:
    """Writes as a C extension would."""
    ctypes.memset(tensor.data_ptr(), 0, 4)


def unseen_write() -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(6, requires_grad=True)
    y = x.exp()
    loss = (y * 3).sum()
    clobber(y)
    loss.backward()
    assert x.grad is not None
    return x.grad


def test_it_finds_a_write_through_a_pointer():
    with outplace.watch() as alone:
        unseen_write()
    with outplace.watch(guard=True) as guarded:
        unseen_write()
    assert not alone.diagnoses
    (found,) = guarded.diagnoses
    assert (found.kind, found.saved_by.node, found.saved_by.site.text) == ("silent-alias", "ExpBackward0", "x.exp()")


def test_large_tensors_are_compared_by_their_fingerprint():
    x = torch.randn(600_000, requires_grad=True)
    with outplace.watch(guard=True) as guarded:
        y = x.exp()
        loss = y.sum()
        clobber(y)
        loss.backward()
    assert [found.kind for found in guarded.diagnoses] == ["silent-alias"]


@pytest.mark.parametrize(
    "change", [lambda t: t.flip(0), lambda t: t.roll(1), lambda t: -t, lambda t: t.t().contiguous()]
)
def test_a_fingerprint_depends_on_values_and_their_order(change):
    table = torch.randn(1100, 1100)
    table[0, 0] = float("nan")
    assert torch.equal(fingerprint(table), fingerprint(table.clone()))
    assert not torch.equal(fingerprint(table), fingerprint(change(table)))


def test_strict_raises():
    with pytest.raises(outplace.WrongGradientError), outplace.watch(guard=True, strict=True):
        unseen_write()
    assert torch._C._len_torch_function_stack() == 0


def test_the_line_is_named_at_the_next_step(tmp_path: Path):
    program = tmp_path / "train.py"
    program.write_text(
        "import ctypes\n"
        "import torch\n"
        "def fill(pointer):\n"
        "    ctypes.memset(pointer, 0, 8)\n"
        "for _ in range(3):\n"
        "    x = torch.ones(4, requires_grad=True)\n"
        "    y = x.exp()\n"
        "    loss = y.sum()\n"
        "    fill(y.data_ptr())\n"
        "    loss.backward()\n"
    )
    command = ("-m", "outplace", "run", "--guard")
    done = forks.python(tmp_path, *command, "train.py")
    assert done.returncode == 0, done.stderr
    assert "train.py:4 in fill" in done.stderr and "OUT302" in done.stderr
    strict = forks.python(tmp_path, *command, "--strict", "train.py")
    assert strict.returncode == 1
    assert "WrongGradientError" in strict.stderr and "outplace/runtime" not in strict.stderr


def trained(seed: int) -> list[torch.Tensor]:
    """A little of everything that saves tensors, or has to do with it."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(24, 4))
    lstm = nn.LSTM(4, 3)
    optimizer = torch.optim.AdamW([*net.parameters(), *lstm.parameters()], lr=1e-2, fused=True)
    for _ in range(3):
        x = torch.randn(5, 2, 8, requires_grad=True)
        h = checkpoint(net, x, use_reentrant=False) + checkpoint(net, x, use_reentrant=True)
        with saved_tensors_hooks(lambda tensor: tensor.double(), lambda tensor: tensor.float()):
            h = h + net(x)
        out, _ = lstm(h)
        (slope,) = torch.autograd.grad(torch.tanh(net(x)).sum(), x, create_graph=True)
        optimizer.zero_grad()
        (out.square().mean() + slope.square().mean()).backward()
        optimizer.step()
        for parameter in net.parameters():
            parameter.data.clamp_(-1, 1)
    torch.func.grad(lambda w: (w * 2).square().sum())(torch.ones(3))
    return [parameter.detach().clone() for parameter in (*net.parameters(), *lstm.parameters())]


def test_training_is_the_same_bit_for_bit_and_there_is_no_false_alarm():
    alone = trained(3)
    with outplace.watch(guard=True) as guarded:
        watched = trained(3)
    assert not guarded.diagnoses
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))


def test_what_pytorch_itself_refuses_stays_its_own_error():
    x = torch.ones(3, requires_grad=True)
    with outplace.watch(guard=True) as guarded:
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    assert [found.kind for found in guarded.diagnoses] == ["saved"]


def test_a_mode_of_the_users_stays_on_the_stack():
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    watch = outplace.watch(guard=True)
    watch.__enter__()
    mode = Mode()
    mode.__enter__()
    watch.__exit__(None, None, None)
    assert torch._C._len_torch_function_stack() == 1
    mode.__exit__(None, None, None)
