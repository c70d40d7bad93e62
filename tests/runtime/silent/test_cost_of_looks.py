"""What a detector costs does not grow with the number of objects, writes and backwards of a program."""

from __future__ import annotations

from side_by_side import both, both_forked, write

MANY_ROUNDS = """
    import gc
    import torch

    searches = []
    for name in ("get_referrers", "get_objects"):
        def counted(*args, _of=getattr(gc, name)):
            searches.append(1)
            return _of(*args)
        setattr(gc, name, counted)

    def normalised(x, scale=2.0):
        distance = x - 1
        distance.mul_(scale).add_(1)
        x.sub_(x.mean())
        return distance.exp_()

    for _ in range(200):  # no backward comes between, as where a derivative is computed by differences
        normalised(torch.rand(4, 4))

    base = torch.rand(8)
    for _ in range(40):
        leaf = torch.nn.Parameter(base[:4])
        optimizer = torch.optim.SGD([leaf], 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            leaf.pow(2).sum().backward()
            optimizer.step()
    print("few" if len(searches) < 100 else "many")
"""


def test_few_searches_through_all_objects(tmp_path):
    program = write(tmp_path, "rounds.py", MANY_ROUNDS)
    expected, actual = both_forked(tmp_path, str(program))
    assert (actual.stdout, actual.code) == (b"few\n", 0), actual.stderr
    assert actual.stderr == expected.stderr  # and nothing is wrong with it


MANY_BACKWARDS = """
    import sys
    import torch

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    looked = []
    rule = sys.modules.get("outplace.runtime.silent.rules.missing_mark_dirty")
    if rule is not None:
        of = rule._is_in_forward
        rule._is_in_forward = lambda write: looked.append(1) or of(write)

    x = torch.rand(3, requires_grad=True)
    y = Square.apply(x).sum()
    part = torch.zeros(3)
    for _ in range(200):  # as `gradcheck` does: the graph stays, and memory is written between the backwards
        part[0] = 1
        torch.autograd.grad(y, x, retain_graph=True)
    print("few" if len(looked) < 1000 else "many", rule is None or len(looked) > 0)
"""


def test_each_write_is_looked_at_once(tmp_path):
    """In processes of their own: plain Python has nothing of outplace loaded."""
    program = write(tmp_path, "backwards.py", MANY_BACKWARDS)
    expected, actual = both(tmp_path, str(program))
    assert expected.stdout == b"few True\n"
    assert (actual.stdout, actual.code) == (b"few True\n", 0), actual.stderr
