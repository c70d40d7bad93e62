"""Recipes without a GPU: a driver of our own starts "kernels" that are a few lines of C, on the memory of a CPU.

So is tried what the tests of `test_again.py` need a CUDA device for: that a kernel gets the arguments it was compiled
for, in their order and width, and that the second time is remembered and the third is started by C.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("outplace.updates.kernels._again")
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
_again = again._again
compiled = Compiled()
one = (7, 2, 1, 128, 16)
right = (("t", 0), ("t", 1), ("t", 2), ("f", 0), ("i", 2000))
recipe = _again.Recipe(((*one, right),), (compiled,), (None,), 0)
assert torch.equal(recipe(x, mask, 3), torch.where(mask, 3.0, x.detach()))
for wrong in (right[:-1] + (("l", 2000),), right + (("i", 1),), (("t", 9),) + right[1:], (("q", 0),) + right[1:],
              right[1:], right * 10):
    try:
        _again.Recipe(((*one, wrong),), (compiled,), (None,), 0)
    except ValueError:
        continue
    raise AssertionError(wrong)
taken = _again.Recipe(((*one, right),), (compiled,), ([20, 100],), 0)(x, mask, 3.0)
assert taken.shape == (20, 100) and torch.equal(taken.reshape(40, 50), torch.where(mask, 3.0, x.detach()))
both = _again.Recipe(((*one, (("t", 6), *right[1:])),), (compiled,), (None, [20, 100]), 0)(x, mask, 3.0)
assert both[0].shape == x.shape and torch.equal(both[1].reshape(40, 50), torch.where(mask, 3.0, x.detach()))
note = torch.zeros(1, dtype=torch.int32)
until = _again.Recipe(((*one, right),), (compiled,), (None,), note.data_ptr())
_again.remember(x.detach(), mask, 3.0, again.ADD, None, until)
assert torch.equal(again.lookup(x.detach(), mask, 3.0, again.ADD), recipe(x, mask, 3.0))
note[0] = 1
assert again.lookup(x.detach(), mask, 3.0, again.ADD) is None
note[0] = 0
assert again.lookup(x.detach(), mask, 3.0, again.ADD) is None, "it is forgotten"
for shapes in ((), (None, None, None)):
    try:
        _again.Recipe(((*one, right),), (compiled,), shapes, 0)
    except ValueError:
        continue
    raise AssertionError(shapes)
for operands in ((x, mask), (x, mask, 1.0, x, x, x)):
    try:
        recipe(*operands)
    except TypeError:
        continue
    raise AssertionError(operands)
# backward: what is known is done by C, for all else there is a function
def context(of_value, *saved):
    return types.SimpleNamespace(needs_input_grad=(True, False, of_value, False), saved_tensors=saved)

two = _again.Recipe(((*one, (("t", 6), *right[1:])), (*one, right)), (compiled,), (None, [20, 100]), 0)
kept = torch.where(mask, 0.0, y := torch.rand(40, 50))  # which is what these kernels make of any operands
for how, make in ((again.SET, recipe), (again.TAKE, recipe), (again.SPLIT, two)):
    backward = _again.Backward(how, lambda self, *grads: ("otherwise", self, *grads))
    for of_value in (False, True):
        ctx = context(of_value, mask)
        again._again.forget()
        assert backward(ctx, y) == ("otherwise", ctx, y), "nothing is known"
        if of_value or how != again.TAKE:
            _again.remember(y, mask, 0.0, how if of_value else again.SET, None, make if of_value else recipe)
            to_x, nothing, to_value, _ = backward(ctx, y)
            assert torch.equal(to_x, y if how == again.TAKE and of_value else kept) and nothing is None
            if of_value and how != again.SET:
                assert torch.equal(to_value.reshape(40, 50), kept)
            else:
                assert to_value is None
        assert backward(ctx, y, y) == ("otherwise", ctx, y, y), "two gradients"
        assert backward(context(of_value), y)[0] == "otherwise", "nothing is saved"
        holder = type("Context", (), {"apply": backward, **vars(ctx)})()
        assert holder.apply(y.double())[:2] == ("otherwise", holder), "it is a method"
    class Freed:
        needs_input_grad = (True, False, True, False)
        @property
        def saved_tensors(self):
            raise RuntimeError("freed")
    try:
        backward(Freed(), y)
    except RuntimeError as error:
        assert str(error) == "freed"
    else:
        raise AssertionError
for wrong in ((again.ADD, len), (9, len), (0,)):
    try:
        _again.Backward(*wrong)
    except (TypeError, ValueError):
        continue
    raise AssertionError(wrong)
# the whole way of at, on tensors that say they are on a GPU: ATen, then Python, then C
from outplace import at
from outplace.updates import kernels

torch.Tensor.is_cuda, torch.Tensor.is_cpu = property(lambda x: True), property(lambda x: False)
kernels._triton, torch.cuda.is_current_stream_capturing = lambda: on_cuda, lambda: False
again._again.forget()
ways = []
for turn in range(4):
    x = torch.rand(40, 50, requires_grad=True)
    started.clear()
    by_driver = again.lookup(x, mask, 1.0, again.SET) is not None
    result = at(x)[mask].set(turn - 0.5)
    ways.append("C" if by_driver else "Python" if started else "ATen")
    assert torch.equal(result, torch.where(mask, turn - 0.5, x)), turn
assert ways == ["ATen", "Python", "C", "C"], ways
del torch.Tensor.is_cuda, torch.Tensor.is_cpu

Compiled.src.signature["elements"] = "u16"  # a Triton that has other types
again._again.forget()
for turn in range(3):
    assert torch.equal(update(x, mask, 0.25), torch.where(mask, 0.25, x))
assert not again.works()
print("all is well")
"""


def test_kernels_get_their_arguments(tmp_path: Path) -> None:
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    built = [str(COMPILER), "-shared", "-fPIC", "-o", str(library), str(tmp_path / "driver.c")]
    subprocess.run(built, check=True, capture_output=True)
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.stdout == "all is well\n", done.stderr
