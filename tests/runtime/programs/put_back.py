"""Watches, stops watching, and looks whether everything is where it was."""

import builtins
import ctypes
import sys
import threading
import traceback
import warnings

import torch
import torch.fx.traceback
from torch.jit._builtins import _get_builtin_table
from torch.optim import optimizer

import outplace

_get_builtin_table()


def seen():
    places = [torch.Tensor, torch, torch.nn.functional, torch._C._nn, torch._VF, torch.nn.init]
    for place in places:
        yield from ((place.__name__, name, value) for name, value in vars(place).items())
    yield "engine", "code", torch.autograd.graph._engine_run_backward.__code__
    yield "fx", "format_stack", torch.fx.traceback.format_stack
    yield "traceback", "init", traceback.TracebackException.__init__
    yield "sys", "hook", sys.excepthook
    yield "threading", "hook", threading.excepthook
    yield from (("meta_path", str(index), finder) for index, finder in enumerate(sys.meta_path))
    yield from (("filters", str(index), entry) for index, entry in enumerate(warnings.filters))


def counts():
    hooks = len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks)
    return len(_get_builtin_table()), torch.is_anomaly_enabled(), hooks


def sequence():
    check = ctypes.pythonapi.PySequence_Check
    check.argtypes, check.restype = [ctypes.py_object], ctypes.c_int
    assert torch.tensor([torch.tensor(0), torch.tensor(1)]).tolist() == [0, 1]
    assert torch.tensor([torch.tensor(0)]).tolist() == [0]
    return check(torch.ones(2)), check(torch.nn.Parameter(torch.ones(2)))


def state():
    return {(place, name): value for place, name, value in seen()}


def work():
    x = torch.zeros(3)
    x.add_(1)
    x[0] = 2
    torch.relu_(x)
    x += 1
    assert torch.Tensor.add_ is torch._C.TensorBase.add_
    return sequence()


for anomaly in (False, True):
    torch.autograd.set_detect_anomaly(anomaly)
    before, counted = state(), counts()
    plain = work()
    for _ in range(2):
        with outplace.watch():
            assert torch.Tensor.add_ is torch._C.TensorBase.add_
            assert work() == plain
        after = state()
        changed = [key for key in before if after.get(key) is not before[key]] + [
            key for key in after if key not in before
        ]
        assert not changed, changed
        assert counts() == counted, (counts(), counted)
        assert work() == plain
assert [name for name in vars(builtins) if "outplace" in name]
print("all as before")
