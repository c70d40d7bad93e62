"""The compiled marks and the ones in Python record the same; a program without a compiler loses nothing but time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from outplace.runtime import fast

PROGRAM = """
import threading

import torch

from outplace.runtime import attach, instrument, record
from outplace.runtime.usercode import own_files

attach.attach("marks")
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
'''
code = instrument.compile_marked(source, "<marked>")
exec(code, {"__name__": "marked"})
thread = threading.Thread(target=exec, args=(code, {"__name__": "marked"}))
thread.start(); thread.join()


def told(place):
    return place if not isinstance(place, tuple) else (place[0].co_name, place[1])


for one in record.all_threads():
    print([(number, told(one.place_of(number))) for number in range(60)])
    print([(write.operation, [told(frame) for frame in write.frames]) for write in one.writes], len(one.steps))
record.MARKS_KEPT = 50
record.connect(torch._C._autograd._get_sequence_nr, lambda: None)
for _ in range(200):
    exec(code, {"__name__": "marked"})
print(len(record.current().starts) <= 51, record.current().place_of(0))
"""


def recorded(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_record_the_same():
    if fast.compiled is None:
        pytest.skip("outplace was installed without a C compiler: the marks are in Python here")
    expected = recorded(OUTPLACE_PURE_PYTHON="1")
    assert "('forward', " in expected and "('<module>', " in expected and "True None" in expected
    assert recorded() == expected
