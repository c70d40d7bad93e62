"""The compiled hooks and the ones in Python record the same; a program without a compiler loses nothing but time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from outplace.runtime.record import native

PROGRAM = """
import threading

import torch

from outplace.runtime import instrument
from outplace.runtime.errors import dispatch
from outplace.report import reporter
from outplace.runtime.program import lifecycle
from outplace.runtime.record import log
from outplace.runtime.record.user_files import own_files

lifecycle.attach("marks", reporter)
own_files.claim("<marked>")
source = '''
import torch
def inner(x):
    y = x.exp()
    for _ in range(3):
        y = y * x
    return y + 1
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(inner(x)).sum() + sum(inner(x).sum() for _ in range(2))
def generate(x):
    for i in range(3):
        yield (x * i).tanh()
x = torch.ones(3, requires_grad=True)
net = torch.nn.Sequential(Net())
loss = net(x) + torch.stack(list(generate(x))).sum() + (lambda v: v.sin())(x).sum()
loss.backward()
optimizer = torch.optim.Adam([x])
optimizer.step()
x.grad.zero_()
w = torch.nn.Parameter(torch.ones(2))
def closure():
    loss = (w * w).sum()
    loss.backward()
    return loss
torch.optim.LBFGS([w], max_iter=2).step(closure)
class Wrong(torch.optim.SGD):
    def _init_group(self, group, *lists):
        raise ValueError('no')
wrong = torch.optim.SGD([w, x], lr=0.1)
wrong._init_group = Wrong._init_group
for _ in range(2):
    try:
        wrong.step()
    except (ValueError, TypeError):
        pass
del wrong._init_group
wrong.step()
wrong.add_param_group({'params': [torch.ones(1, requires_grad=True)]})
wrong.step()
state, history = torch.zeros(2), []
for i in range(4):
    state.add_(i)
    history.append(state)
    history.append(i)
    with torch.inference_mode():
        history.append(torch.ones(1))
'''
code = instrument.compile_marked(source, "<marked>")
exec(code, {"__name__": "marked"})
thread = threading.Thread(target=exec, args=(code, {"__name__": "marked"}))
thread.start(); thread.join()


def told(place):
    # The line, since an instruction has more than one offset while it calls something.
    if not isinstance(place, tuple):
        return place
    inside, offset = place
    return inside.co_name, next(line for start, end, line in inside.co_lines() if start <= offset < end)


for one in log.all_threads():
    print([(number, told(one.place_of(number))) for number in range(60)])
    for write in one.writes:
        print(write.operation, write.moment, write.before, [told(frame) for frame in write.frames])
    for step in one.steps:
        versions = [(before, after) for _, before, after in step.versions()]
        print(step.operation, step.moment, [told(frame) for frame in step.frames], versions)
    for backward in one.backwards:
        print("backward", backward.moment, [told(frame) for frame in backward.frames])
print(log.state.backwards, log.state.steps, log.state.stepping)
print([(found.kind, [change.site.line for change in found.mutations]) for found in dispatch.not_shown])
log.MARKS_KEPT = 50
log.connect(torch._C._autograd._get_sequence_nr, lambda: None)
for _ in range(20):
    exec(code, {"__name__": "marked"})
print(len(log.current().starts) <= 51, log.current().place_of(0))
"""


def recorded(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_record_the_same():
    if native.compiled is None:
        pytest.skip("outplace was installed without a C compiler: the marks are in Python here")
    expected = recorded(OUTPLACE_PURE_PYTHON="1")
    for part in ("('forward', ", "('<module>', ", "LBFGS.step", "SGD.step", "silent-other", "\n6 0 0\n", "True None"):
        assert part in expected
    assert recorded() == expected
