"""Recipes without a GPU: a driver of our own starts "kernels" that are a few lines of C, on the memory of a CPU.

So is tried what the tests of `test_again.py` need a CUDA device for: that a kernel gets the arguments it was compiled
for, in their order and width, and that the second time is remembered and the third is started by C++.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .native import module

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs a C compiler, on Linux"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver"),
]

DRIVER = r"""
#include <stddef.h>
#include <stdint.h>
/* One kernel, set_flat: out, x, mask, number, elements, and the two pointers that Triton adds. */
static const size_t sizes[] = {8, 8, 8, 4, 4, 8, 8};
int started = 0;
int cuFuncGetParamInfo(void *function, size_t number, size_t *offset, size_t *size)
{
    if (number >= sizeof sizes / sizeof *sizes || (uintptr_t)function != 7)
        return 1;
    *offset = 0;
    *size = sizes[number];
    return 0;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    float *out = *(float **)arguments[0], *in = *(float **)arguments[1];
    unsigned char *mask = *(unsigned char **)arguments[2];
    if (started++ == 0)
        return 201; /* as in a thread that has not used CUDA yet */
    if (x != 2 || y != 1 || z != 1 || threads != 128 || b != 1 || c != 1 || shared != 16)
        return 1;
    if (stream != (void *)5 || extra)
        return 1;
    if (*(void **)arguments[5] || *(void **)arguments[6])
        return 2;
    for (int i = 0; i < *(int32_t *)arguments[4]; i++)
        out[i] = mask[i] ? *(float *)arguments[3] : in[i];
    return 0;
}
"""

PROGRAM = r"""
import sys, types
import torch
import torch._dynamo  # which checkpoints import, before there is a Triton that is none

class Compiled:  # as Triton has it
    function = 7
    src = types.SimpleNamespace(signature=dict(
        out="*fp32", x="*fp32", mask="*i1", number="fp32", elements="i32", WIDE="constexpr", BLOCK="constexpr"))
    metadata = types.SimpleNamespace(num_warps=4, shared=16)
    packed_metadata = None
    def run(self, *args):
        raise AssertionError("the second time is not to be started by this")

class Kernel:
    def __init__(self, function):
        self.fn = function
    def __getitem__(self, grid):
        def start(out, x, mask, number, *rest, num_warps):
            out.copy_(torch.where(mask, number, x))
            return Compiled()
        return start

def jit(function=None, **options):
    return Kernel(function) if function is not None else jit

triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
triton.jit, triton.language, language.constexpr = jit, language, None
sys.modules.update({"triton": triton, "triton.language": language})
devices = []
torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream = lambda: -1, lambda device: 5
torch._C._cuda_setDevice = devices.append

from outplace.updates.kernels import again, function, on_cuda

on_cuda._directly = False
_again = again.native.wait()
again._works = again.connect(_again, on_cuda=False)
assert again.works()
started = []
plain = on_cuda.Steps.__call__
on_cuda.Steps.__call__ = lambda *args: (started.append(0), plain(*args))[1]

def update(x, mask, value):
    done = again.lookup(x, mask, value, again.SET)
    if done is None:
        done = again.first(on_cuda.Steps(on_cuda.set_number(x, mask)), function.set_number, again.SET, x, mask, value)
    return done

for turn in range(6):  # three times each, without gradients and with them
    x = torch.rand(40, 50, requires_grad=turn >= 3)
    mask = torch.rand(40, 50) < 0.5
    started.clear()
    result = update(x, mask, turn - 0.5)
    assert torch.equal(result, torch.where(mask, turn - 0.5, x)), turn
    assert len(started) == (turn % 3 < 2), (turn, started)
    assert result.requires_grad == x.requires_grad
    if turn >= 3:
        (grad,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(grad, (~mask).float())
assert devices == [-1], devices  # the driver's first answer
compiled = Compiled()
one = (7, 2, 1, 128, 16)
right = (("t", 0), ("t", 1), ("t", 2), ("f", 0), ("i", 2000))
x = x.detach()
expected = torch.where(mask, 3.0, x)
def made_by(how, *recipe):
    _again.remember(x, mask, 3.0, how, None, _again.Recipe(*recipe))
    return again.lookup(x, mask, 3.0, how)

assert torch.equal(made_by(again.ADD, ((*one, right),), (compiled,), (None,), 0), expected)
for wrong in (right[:-1] + (("l", 2000),), right + (("i", 1),), (("t", 9),) + right[1:], (("q", 0),) + right[1:],
              right[1:], right * 10):
    try:
        _again.Recipe(((*one, wrong),), (compiled,), (None,), 0)
    except ValueError:
        continue
    raise AssertionError(wrong)
taken = made_by(again.TAKE, ((*one, right),), (compiled,), ([20, 100],), 0)
assert taken.shape == (20, 100) and torch.equal(taken.reshape(40, 50), expected)
both = made_by(again.SPLIT, ((*one, (("t", 6), *right[1:])),), (compiled,), (None, [20, 100]), 0)
assert both[0].shape == x.shape and torch.equal(both[1].reshape(40, 50), expected)
note = torch.zeros(1, dtype=torch.int32)
assert torch.equal(made_by(again.ADD, ((*one, right),), (compiled,), (None,), note.data_ptr()), expected)
note[0] = 1
assert again.lookup(x, mask, 3.0, again.ADD) is None
note[0] = 0
assert again.lookup(x, mask, 3.0, again.ADD) is None, "it is forgotten"
for shapes in ((), (None, None, None)):
    try:
        _again.Recipe(((*one, right),), (compiled,), shapes, 0)
    except ValueError:
        continue
    raise AssertionError(shapes)
# backward: what is known is done by C++, for all else a function is asked
asked = []
def gradients(grad, of_x, of_value, *saved):
    asked.append((of_x, of_value, *saved))
    return grad + 1, grad + 2 if of_value else None

plain_kinds = [*again.kinds]
again.kinds[:] = [kind._replace(gradients=gradients) for kind in again.kinds]
again.connect(_again, on_cuda=False)
recipe = _again.Recipe(((*one, right),), (compiled,), (None,), 0)
two = _again.Recipe(((*one, (("t", 6), *right[1:])), (*one, right)), (compiled,), (None, None), 0)
grad = torch.rand(40, 50)
kept = torch.where(mask, 0.0, grad)  # which is what these kernels make of any operands

def recorded(kind, x, value, index=mask):
    _again.remember(x, index, value, again.SET, kind.number, recipe)
    return again.lookup(x, index, value, again.SET)

def both_gradients(result, of):
    asked.clear()
    found = torch.autograd.grad(result, of, grad, retain_graph=True)
    return (*found, None)[:2]

for kind in (function.set_number, function.set_tensor, function.add_rows, function.set_rows):
    to_x, to_value = kind.looked_up
    for of_x, of_value in ((True, False), (True, True), (False, True)):
        if kind is function.set_number and of_value:
            continue
        _again.forget()
        x, v = torch.rand(40, 50, requires_grad=of_x), torch.rand(40, 50, requires_grad=of_value)
        result = recorded(kind, x, 0.5 if kind is function.set_number else v)
        wanted = [t for t in (x, v) if t.requires_grad]
        got = both_gradients(result, wanted)
        if of_value or to_x is not None:
            assert [what[:2] for what in asked] == [(of_x, of_value)] and asked[0][2] is mask, "nothing is known"
            assert torch.equal(got[0], grad + (1 if of_x else 2))
        else:
            assert not asked and torch.equal(got[0], grad), "there is nothing to be made of it"
        for how in {to_x, to_value} - {None}:
            _again.remember(grad, mask, 0.0, how, None, two if how == again.SPLIT else recipe)
        got = both_gradients(result, wanted)
        assert not asked, (kind, asked)
        if of_x:
            assert torch.equal(got[0], grad if to_x is None else kept)
        if of_value:
            assert torch.equal(got[len(wanted) - 1], kept)
        torch.autograd.grad(result, wanted, grad.clone().requires_grad_(), create_graph=True)
        assert len(asked) == 1, "what has a gradient itself is left to the function"
        second = recorded(kind, x, 0.5 if kind is function.set_number else v)
        second.sum().backward()
        try:
            second.sum().backward()
        except RuntimeError as error:
            assert "second time" in str(error), error
        else:
            raise AssertionError("it was freed")
x, v = torch.rand(40, 50, requires_grad=True), torch.rand(40, 50, requires_grad=True)
late = mask.clone()
result = recorded(function.set_tensor, x, v, late)
late.logical_not_()
try:
    result.sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error), error
else:
    raise AssertionError("the index was changed")
for index in (3, (3, slice(1, 7)), (..., None, slice(None, -1, 2)), slice(5, None), None):
    asked.clear()
    _again.remember(x, index, v, again.SET, function.set_part.number, _again.Recipe((), (), (None,), 0))
    again.lookup(x, index, v, again.SET).backward(grad)
    assert asked == [(True, True, index)], asked
def failing(*args):
    raise KeyError("what it says")
again.kinds[:] = [kind._replace(gradients=failing) for kind in again.kinds]
again.connect(_again, on_cuda=False)
try:
    recorded(function.set_tensor, x, v).sum().backward()
except KeyError as error:
    assert "what it says" in str(error)
else:
    raise AssertionError
again.kinds[:] = plain_kinds
again.connect(_again, on_cuda=False)
# the whole way of at, on tensors that say they are on a GPU: ATen, then Python, then C++
from outplace import at
from outplace.updates import kernels

torch.Tensor.is_cuda, torch.Tensor.is_cpu = property(lambda x: True), property(lambda x: False)
kernels._triton, torch.cuda.is_current_stream_capturing = lambda: on_cuda, lambda: False
_again.forget()
ways = []
for turn in range(4):
    x = torch.rand(40, 50, requires_grad=True)
    started.clear()
    by_driver = again.lookup(x, mask, 1.0, again.SET) is not None
    result = at(x)[mask].set(turn - 0.5)
    ways.append("C++" if by_driver else "Python" if started else "ATen")
    assert torch.equal(result, torch.where(mask, turn - 0.5, x)), turn
assert ways == ["ATen", "Python", "C++", "C++"], ways
# a mask of the rows of one column: it is not of the shape that it is used in
kernels.TENSOR_BYTES, on_cuda.split = 0, lambda grad, mask: None
rows = torch.rand(40) < 0.5
for turn in range(4):
    x, v = torch.rand(40, 1, requires_grad=True), torch.rand(40, 1, requires_grad=True)
    to_x, to_v = torch.autograd.grad(at(x)[rows].set(v), (x, v), torch.ones(40, 1))
    assert torch.equal(to_x[:, 0], (~rows).float()) and torch.equal(to_v[:, 0], rows.float()), turn
# a checkpoint counts what is saved, in its forward and when it computes it anew
from torch.utils.checkpoint import checkpoint
_again.forget()
for turn in range(3):
    x = torch.rand(40, 50, requires_grad=True)
    for index in (mask, mask[:, 0], slice(2, 4)):
        checkpoint(lambda x: at(x.sin())[index].set(0.0).cos(), x, use_reentrant=False).sum().backward()
del torch.Tensor.is_cuda, torch.Tensor.is_cpu

Compiled.src.signature["elements"] = "u16"  # a Triton that has other types
_again.forget()
for turn in range(3):
    assert torch.equal(update(x, mask, 0.25), torch.where(mask, 0.25, x))
assert not again.works()
print("all is well")
"""


def test_kernels_get_their_arguments(tmp_path: Path) -> None:
    module()
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    built = [str(COMPILER), "-shared", "-fPIC", "-o", str(library), str(tmp_path / "driver.c")]
    subprocess.run(built, check=True, capture_output=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.stdout == "all is well\n", done.stderr
