"""A picture of torch, Python and numpy, work that meets every hook, and ways to attach while it is done."""

import atexit
import builtins
import ctypes
import gc
import importlib.machinery
import io
import logging
import random
import runpy
import sys
import threading
import traceback
import types
import warnings

import numpy
import torch
import torch._C._autograd
import torch._dynamo.eval_frame
import torch.distributed
import torch.distributed.device_mesh
import torch.fx.traceback
import torch.jit._builtins
import torch.utils.checkpoint
import torch.utils.data._utils.fetch
import torch.utils.dlpack
from torch.optim import optimizer
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import outplace
from outplace.report import reporter
from outplace.runtime.program import lifecycle

MODULES = [
    builtins,
    atexit,
    gc,
    importlib.machinery,
    io,
    logging,
    random,
    runpy,
    sys,
    threading,
    traceback,
    warnings,
    numpy,
    torch,
    torch._C,
    torch._C._autograd,
    torch._C._nn,
    torch._VF,
    torch._dynamo.eval_frame,
    torch.autograd,
    torch.autograd.function,
    torch.autograd.grad_mode,
    torch.autograd.graph,
    torch.distributed,
    torch.distributed.device_mesh,
    torch.distributed.distributed_c10d,
    torch.fx.traceback,
    torch.jit._builtins,
    torch.nn,
    torch.nn.functional,
    torch.nn.init,
    torch.nn.modules.module,
    torch.nn.parallel.distributed,
    torch.optim,
    optimizer,
    torch.overrides,
    torch.utils,
    torch.utils.checkpoint,
    torch.utils.data._utils.fetch,
    torch.utils.dlpack,
]
CONTAINERS = (dict, list, set, tuple)
OURS = ("sys.modules contents", "sys.path_importer_cache contents")
"""Modules of outplace are imported when it attaches, and stay."""
DYNAMOS = ("torch._dynamo.eval_frame.cached_backends contents",)
"""Dynamo adds to it with each compilation, and drops what belongs to a function that is gone."""

exits = []
"""What is registered to be called at the end: Python does not tell."""
register, unregister = atexit.register, atexit.unregister


def note_exit(function, *args, **kwargs):
    exits.append(function)
    return register(function, *args, **kwargs)


def forget_exit(function):
    exits[:] = [other for other in exits if other != function]
    unregister(function)


atexit.register, atexit.unregister = note_exit, forget_exit
torch.jit._builtins._get_builtin_table()


def ids(value):
    if isinstance(value, dict):
        return [(id(key) if not isinstance(key, str | int) else key, id(one)) for key, one in value.items()]
    return [*map(id, value)]


def seen(name, value):
    """A thing and all of it that could be changed without its being another: code, defaults, contents."""
    yield name, id(value)
    for depth, function in enumerate(wrapped(value)):
        yield f"{name} code {depth}", id(function.__code__)
        yield f"{name} defaults {depth}", id(function.__defaults__)
        yield f"{name} names {depth}", sorted(vars(function))
    if type(value) in CONTAINERS or isinstance(value, dict):
        yield f"{name} contents", ids(value)


def wrapped(value):
    value = getattr(value, "__func__", value)
    while isinstance(value, types.FunctionType):
        yield value
        value = getattr(value, "__wrapped__", None)


def picture():
    found = {}
    classes = {}
    for module in MODULES:
        for name, value in list(vars(module).items()):
            found.update(seen(f"{module.__name__}.{name}", value))
            if isinstance(value, type):
                classes[value] = f"{module.__name__}.{name}"
    for kind, full_name in classes.items():
        for name, value in vars(kind).items():
            found.update(seen(f"{full_name}.{name}", value))
    found["anomaly"] = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    found["filters"] = [*map(id, warnings.filters)]
    found["exits"] = [*map(id, exits)]
    for name in (*OURS, *DYNAMOS):
        found.pop(name, None)
    found["modes"] = torch._C._len_torch_function_stack(), len(_get_current_dispatch_mode_stack())
    found["hooks"] = torch._C._autograd._saved_tensors_hooks_is_enabled()
    found["handlers"] = [*map(id, logging.root.handlers)]
    return found


def differences(before, after):
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def sequence():
    check = ctypes.pythonapi.PySequence_Check
    check.argtypes, check.restype = [ctypes.py_object], ctypes.c_int
    assert torch.tensor([torch.tensor(0), torch.tensor(1)]).tolist() == [0, 1]
    assert torch.tensor([torch.tensor(0)]).tolist() == [0]
    return check(torch.ones(2)), check(torch.nn.Parameter(torch.ones(2)))


NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
STEPPED = torch.optim.SGD(NET.parameters(), lr=0.1)


def work():
    """A bit of everything that is hooked."""
    x = torch.zeros(3)
    x.add_(1)
    x[0] = 2
    torch.relu_(x)
    x += 1
    x.data.mul_(2)
    torch.from_numpy(numpy.ones(3)).add_(1)
    assert torch.Tensor.add_ is torch._C.TensorBase.add_
    h = torch.utils.checkpoint.checkpoint(NET, torch.randn(4, 3), use_reentrant=False)
    STEPPED.zero_grad()
    h.sum().backward()
    STEPPED.step()
    NET.load_state_dict(NET.state_dict())
    new = torch.optim.Adam(NET.parameters())
    h = NET(torch.randn(4, 3))
    h.register_hook(lambda gradient: None)
    h.sum().backward()
    new.step()
    assert not STEPPED._optimizer_step_post_hooks or lifecycle.attached()
    next(iter(torch.utils.data.DataLoader([1.0, 2.0])))
    thread = threading.Thread(target=lambda: torch.ones(3, requires_grad=True).exp().sum().backward())
    thread.start()
    thread.join()
    hook = sys.excepthook
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.distributed.all_reduce(torch.ones(3))
    torch.distributed.destroy_process_group()
    sys.excepthook = hook  # torch puts one of its own there
    torch._dynamo.reset()
    assert torch.compile(lambda y: y.clone().add_(1), backend="eager")(torch.ones(2)).tolist() == [2, 2]
    return sequence()


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def life(way, guard, look=bool):
    """Attaches, does something, detaches."""
    if way == "watch":
        with outplace.watch(guard=guard):
            result = work()
            look()
            return result
    lifecycle.attach(way, reporter, guard)
    try:
        result = work()
        look()
        return result
    finally:
        lifecycle.count_callers(guard, False, -1)
        lifecycle.detach()
