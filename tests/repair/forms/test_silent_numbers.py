"""Silent bugs: the gradients of the repaired programs against central differences of the original forward, in float64.

Nothing of autograd is in that truth, and nobody has written the right program by hand.
"""

from __future__ import annotations

import pytest
from differences import Forward, close, run

import forks

HEAD = """import numpy
import torch

x = torch.linspace(-1.2, 1.3, 5, dtype=torch.float64).requires_grad_()
w = torch.linspace(0.9, 0.4, 5, dtype=torch.float64).requires_grad_()
leaves = [x, w]
"""

PROGRAMS = {
    "a result scaled": """
y = x.exp()
loss = (y * w).sum()
y.data.mul_(1.5)
""",
    "weights clipped": """
loss = ((x * w).tanh() * w).sum()
w.data.clamp_(-0.5, 0.5)
""",
    "a gate masked": """
gate = torch.sigmoid(x * w)
loss = (gate * 2 + x).square().sum()
gate.data[gate > 0.5] = 0.0
""",
    "a leaf replaced": """
loss = (x.sin() * w).sum()
x.data = x.data + 0.3
""",
    "applied": """
y = x.tanh()
loss = (y * w).sum()
y.detach().apply_(lambda value: round(value, 1))
""",
    "an array scaled": """
y = (x * w).sigmoid()
loss = (y * x).sum()
view = y.detach().numpy()
view *= 2
""",
    "a buffer refilled": """
buffer = numpy.zeros(5)
loss = 0.0
for t in range(3):
    buffer[:] = t + 0.5
    batch = torch.from_numpy(buffer)
    loss = loss + (batch * x * w).sin().sum()
""",
    "two tensors of an array": """
array = numpy.linspace(0.1, 0.5, 5)
first = torch.from_numpy(array)
loss = (first * x).sin().sum() + w.sum()
second = torch.from_numpy(array)
second.mul_(3.0)
""",
    "kept in ctx": """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.a = a
        ctx.b = b
        return a * b

    @staticmethod
    def backward(ctx, g):
        return g * ctx.b, g * ctx.a


s = torch.full((5,), 2.0, dtype=torch.float64)
loss = Scale.apply(x * w, s).sin().sum()
s.add_(1.0)
""",
    "a version preserved": """
y = (x * w).exp()
loss = (y * x).sum()
with torch.autograd._unsafe_preserve_version_counter(y), torch.no_grad():
    y.mul_(3.0)
""",
}
ONLY_BY_A_RUN = {
    "a storage filled": """
y = (x * w).exp()
loss = (y * x).sum()
y.untyped_storage().fill_(0)
""",
}


def judge(source: str, repaired: str) -> None:
    truth, wrong, right = Forward(source).gradients(), run(source), run(repaired)
    assert wrong.gradients is not None and not close(wrong.gradients, truth, 1.0)
    assert right.gradients is not None and close(right.gradients, truth, 1.0)
    assert right.loss == pytest.approx(wrong.loss, rel=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_repaired_from_source(fixed, name):
    source = HEAD + PROGRAMS[name].lstrip("\n") + "loss.backward()\n"
    judge(source, fixed(source))


@pytest.mark.parametrize("name", ONLY_BY_A_RUN)
def test_repaired_by_a_run(tmp_path, name):
    program = tmp_path / "program.py"
    source = HEAD + ONLY_BY_A_RUN[name].lstrip("\n") + "loss.backward()\n"
    program.write_text(source)
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", program.name)
    assert done.returncode == 0, done.stderr
    judge(source, program.read_text())
