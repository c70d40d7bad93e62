"""What torch does, and what it is seen to be, is the same with outplace: compiled, scripted, overridden, pickled."""

from __future__ import annotations

from pathlib import Path

from side_by_side import both_forked, forked, write

PROGRAMS = Path(__file__).parents[1] / "programs"


def test_torch_is_what_it_was_under_outplace(tmp_path):
    expected, actual = both_forked(tmp_path, str(PROGRAMS / "untouched.py"))
    assert expected.code == 0, expected.stderr
    assert actual.stdout.decode().splitlines() == expected.stdout.decode().splitlines()
    assert actual.stderr.startswith(expected.stderr)
    assert actual.code == 0


SCRIPTED = """
    import warnings
    import torch

    def mean(x: torch.Tensor, weight: float):
        return x * torch.as_tensor(weight) + torch.relu_(x.clone())

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        print(torch.jit.script(mean).graph)
    print(len(said))
"""


def test_torchscript_knows_every_function_that_is_replaced(tmp_path):
    program = write(tmp_path, "scripted.py", SCRIPTED)
    expected, actual = both_forked(tmp_path, str(program))
    assert b"aten::as_tensor" in expected.stdout, expected.stderr
    assert actual.stdout.decode() == expected.stdout.decode()


TRACED = """
    import warnings
    import torch

    class Normalised(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x, kept):
            y = x.clone()
            y.sub_(1.0).div_(2.0)
            y[0] = 1
            kept.append(y)
            self.seen.add_(y.detach())
            z = y * 2
            z -= y.data
            return z + (y - y) + x.numpy().size

    def call(x):
        return Normalised()(x, [])

    def show(said):
        print(*sorted(f"{item.category.__name__} {item.lineno} {str(item.message)[:60]}" for item in said), sep="\\n")

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        traced = torch.jit.trace(call, torch.ones(3))
        module = torch.jit.trace(torch.nn.ReLU(inplace=True), torch.ones(3))
        compiled = torch.compile(call, backend="eager")
    show(said)
    print(traced.graph, module.graph, traced(torch.ones(3)), compiled(torch.ones(3)))
    w = torch.ones(3, requires_grad=True)
    h = w.exp()
    h.add_(1)
    try:
        h.sum().backward()
    except RuntimeError as error:
        print(str(error)[:40])
"""


def test_a_trace_of_torchscript_has_nothing_of_outplace(tmp_path):
    program = write(tmp_path, "traced.py", TRACED)
    expected, actual = both_forked(tmp_path, str(program))
    assert expected.code == 0, expected.stderr
    assert "TracerWarning" in expected.stdout.decode()
    assert actual.stdout.decode() == expected.stdout.decode()
    assert "OUT201" in actual.stderr and "h.add_(1)" in actual.stderr  # what comes after a trace is recorded as before


def test_everything_is_put_back(tmp_path):
    ending = forked(tmp_path, str(PROGRAMS / "put_back.py"))
    last = ending.stdout.splitlines()[-1:]  # gloo of torch 2.9 writes lines of its own
    assert (last, ending.code) == ([b"all as before"], 0), ending.stderr


def test_everything_that_is_changed_is_listed(tmp_path):
    ending = forked(tmp_path, str(PROGRAMS / "all_listed.py"))
    last = ending.stdout.splitlines()[-1:]
    assert (last, ending.code) == ([b"all are listed"], 0), ending.stderr
