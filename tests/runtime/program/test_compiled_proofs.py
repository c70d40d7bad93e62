"""A proof of a compiled program compiles it as the program itself does, and no more often."""

from __future__ import annotations

from side_by_side import forked, outplace_forked, write

PROGRAM = """\
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def counted(module, inputs):
    with open("compiled", "a") as file:
        print(len(list(module.graph.nodes)), file=file)
    return module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.inner, self.out = nn.Embedding(9, 4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, ids):
        return self.out(self.inner(self.table(ids)).tanh()).softmax(-1)


torch.manual_seed(0)
net = torch.compile(Net(), backend=BACKEND, fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    ids = torch.randint(0, 9, (2, 6))
    likely = net(ids[:, :-1])  # a part of a tensor, with gaps in its memory, that the compiled backward needs
    CLAMP
    loss = -likely.log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 5))
"""
BUG, REPAIRED = "likely.clamp_(min=1e-6)", "likely = likely.clamp(min=1e-6)"


def program(backend, clamp):
    return PROGRAM.replace("BACKEND", backend).replace("CLAMP", clamp)


def compilations(folder):
    """The graphs that were compiled since this was last asked, by their sizes."""
    counts = (folder / "compiled").read_text().split()
    (folder / "compiled").unlink()
    return counts


def test_each_run_of_a_proof_compiles_what_the_program_compiles(tmp_path):
    backend = "aot_autograd(fw_compiler=counted)"
    write(tmp_path, "right.py", program(backend, REPAIRED))
    right = forked(tmp_path, "right.py")
    alone = compilations(tmp_path)
    assert right.code == 0 and len(alone) == 2  # forward and backward
    write(tmp_path, "train.py", program(backend, BUG))
    done = outplace_forked(tmp_path, "run", "--fix", "train.py")
    assert compilations(tmp_path) == [alone[0], *alone, *alone]  # no backward in the failed run; with copies; repaired
    assert (tmp_path / "train.py").read_text() == program(backend, REPAIRED), done.stderr
    assert done.stdout == right.stdout
    assert "loss: unchanged, in 3 backwards" in done.stderr
    assert "copies of its saved tensors, in 3 backwards" in done.stderr


PRODUCTS = """\
import atexit, torch._dynamo.utils
@atexit.register
def note():
    with open("compiled", "a") as file:
        print(torch._dynamo.utils.counters["inductor"]["fxgraph_cache_miss"], file=file)
torch.manual_seed(0)
product = torch.compile(lambda x, w: x @ w)  # nothing that needs a C++ compiler
x, w = torch.rand(3, 4), torch.rand(4, 5, requires_grad=True)
for _ in range(3):
    likely = product(x, w).softmax(-1)
    CLAMP
    likely.log().sum().backward()
"""


def test_inductor_compiles_each_graph_once_for_all_runs(tmp_path):
    write(tmp_path, "train.py", PRODUCTS.replace("CLAMP", BUG))
    done = outplace_forked(tmp_path, "run", "--fix", "train.py", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert (tmp_path / "train.py").read_text() == PRODUCTS.replace("CLAMP", REPAIRED), done.stderr
    assert "copies of its saved tensors, in 3 backwards" in done.stderr
    counts = [int(count) for count in compilations(tmp_path)]
    assert len(counts) == 3 and sum(counts) == 2, counts  # forward and backward
