"""A program's own modes and subclasses see its operations under `outplace run`, and none of ours."""

from __future__ import annotations

from side_by_side import both_forked, write

PROGRAM = """
    import copy
    import numpy as np
    import torch
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []
    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))
    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            seen.append(str(operation))
            return operation(*args, **(kwargs or {}))
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(f"own {getattr(function, '__name__', function)}")
            return super().__torch_function__(function, types, args, kwargs or {})
    def tell(what):
        print(what, *seen)
        seen.clear()
    def write(y):
        y.add_(1); torch.relu_(y); y[0] = 1; y += 1; take = y.mul_; take(2); torch.add(y, 1, out=y)
        tell("written")
        y.data.mul_(2); y.data = torch.ones_like(y) * 3; y.data = y.data
        tell("through data")
        torch.from_dlpack(y); torch.asarray(y); torch.as_tensor(y)
        tell("handed on")
        y.numpy()[0] = 2; y.untyped_storage().fill_(0); y.storage()[0] = 1
        tell("by its memory")
        kept, named = [], {}
        for _ in range(3):
            y += 1; kept.append(y); named["y"] = y
        tell("kept")
    def work():
        array = np.ones(3)
        first, second = torch.from_numpy(array), torch.as_tensor(array)
        array[0] = 3; torch.frombuffer(bytearray(8), dtype=torch.uint8)
        tell("array")
        write(torch.ones(3))
        net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.BatchNorm1d(3))
        optimizers = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), torch.optim.Adam(net.parameters())
        for optimizer in optimizers:
            optimizer.zero_grad(); net(torch.ones(4, 3)).sum().backward(); optimizer.step()
        tell("trained")
        net.load_state_dict(net.state_dict()); copy.deepcopy(net); net[0].weight = nn.Parameter(torch.ones(3, 3))
        tell("loaded")
        w = torch.ones(3, requires_grad=True)
        w.register_hook(lambda gradient: gradient * 2)
        v = w * w; w.data.mul_(3); v.sum().backward()
        y = w * 1; y[torch.tensor([0, 0])] += 1
        tell("silent")
        for wrong in (lambda: w.exp().add_(1).sum().backward(), lambda: w.add_(1), lambda: w.view(3).zero_()):
            try:
                wrong()
            except RuntimeError as error:
                tell(str(error)[:40])
    with Functions():
        work()
    with Operations():
        work()
    write(torch.ones(3).as_subclass(Own))
    module = nn.Module(); module.register_buffer("held", torch.ones(3).as_subclass(Own))
    module.load_state_dict(module.state_dict())
    tell("a buffer")
    """


def test_modes_and_subclasses_see_what_the_program_does(tmp_path):
    write(tmp_path, "prog.py", PROGRAM)
    expected, actual = both_forked(tmp_path, "prog.py")
    assert actual.stdout.decode().splitlines() == expected.stdout.decode().splitlines()
    assert (actual.code, expected.code) == (0, 0)
    assert b"own add_" in expected.stdout
