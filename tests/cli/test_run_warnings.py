"""Warnings under `outplace run` name the file and the line that they name without, and are shown as often."""

from __future__ import annotations

from side_by_side import both, outplace, same, write

TORCH = """
    import warnings
    import numpy as np
    import torch
    from torch import nn
    torch.set_warn_always(True)
    fixed = np.arange(4.0)
    fixed.setflags(write=False)
    for _ in range(2):
        torch.from_numpy(fixed)  # each of these lines once: Python shows a warning of one line once
        torch.as_tensor(fixed)
        torch.asarray(fixed)
        torch.frombuffer(
            b"12345678",
            dtype=torch.uint8,
        )
    torch.as_tensor([np.ones(3), np.ones(3)])
    z, part = torch.ones(2), torch.ones(2, dtype=torch.complex64)
    z.copy_(part)
    take = z.copy_
    take(part)
    z[:] = part
    torch._foreach_copy_([z], [part])

    net = nn.Linear(2, 2)
    net.state_dict(None, "x.")
    class Net(nn.Module):
        def state_dict(self, *args, **kwargs):
            warnings.warn("of the program's own", stacklevel=2)
            return super().state_dict(*args, **kwargs)
    Net().state_dict()

    def hook(*given):
        warnings.warn("inside", stacklevel=1)
        warnings.warn("around", stacklevel=2)
    leaf = torch.ones(3, requires_grad=True)
    leaf.register_hook(hook)
    net.register_full_backward_hook(hook)
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, gradient):
            warnings.warn("around a backward", stacklevel=2)
            return gradient * 2
    (Twice.apply(leaf).sum() + net(torch.ones(1, 2)).sum()).backward()

    def raises(call):
        try:
            call()
        except Exception:
            import traceback
            traceback.print_exc()
    warnings.simplefilter("error")
    raises(lambda: torch.from_numpy(fixed))
    raises(lambda: take(part))
    torch.from_numpy("no array")
    """


def test_of_functions_that_outplace_stands_before(tmp_path):
    write(tmp_path, "prog.py", TORCH)
    expected, actual = both(tmp_path, "prog.py")
    same(expected, actual)
    same(expected, outplace(tmp_path, "run", "prog.py", OUTPLACE_PURE_PYTHON="1"))
    for said in ("is not writable", "discards the imaginary part", "around a backward", 'from_numpy("no array")'):
        assert said in expected.stderr


BELOW = """
    import warnings
    def warn(level):
        warnings.warn(f"{level} below", stacklevel=level)
    for level in range(1, 7):
        warn(level)
    warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
    warnings.warn("by whom?", DeprecationWarning, stacklevel=2)
    print(sorted(name for name in globals() if name.startswith("__warn")))
    """


def test_of_more_levels_than_the_program_has(tmp_path):
    write(tmp_path, "prog.py", BELOW)
    expected, actual = both(tmp_path, "prog.py")
    same(expected, actual)
    assert "prog.py" in expected.stderr.partition("UserWarning: 2 below")[0].splitlines()[-1]
    assert "prog.py" not in expected.stderr.partition("UserWarning: 3 below")[0].splitlines()[-1]
    same(*both(tmp_path, "-m", "prog"))
