"""What a compiling program says, and the graph breaks that Dynamo counts, are the same as without outplace."""

import re
import sys

from side_by_side import forked, outplace_forked, write

PROGRAM = """\
import traceback
import torch
import torch._dynamo.utils


@torch.compile(backend="eager")
def pick(table, index):
    return table[index] * 2


def refuse(module, inputs):
    raise ValueError("no")


net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def train(x):
    optimizer.zero_grad()
    y = net(x).exp()
    torch._dynamo.graph_break()
    loss = y.sum()
    loss.backward()
    optimizer.step()
    return loss


for function in (lambda: pick(torch.rand(3), torch.tensor([7])), lambda: torch.compile(len, backend=refuse)(net)):
    try:
        function()
    except Exception:
        traceback.print_exc()
try:
    torch.compile(lambda x: x + 1, backend=refuse)(torch.ones(2))
except Exception:
    traceback.print_exc()
torch.manual_seed(0)
for _ in range(3):
    train(torch.rand(3, 4))
counters = torch._dynamo.utils.counters
print(sum(counters["graph_break"].values()))
"""


HOOK = "from torch.optim.optimizer import register_optimizer_step_pre_hook as hook\nhook(lambda *_: None)\n"
"""outplace has a hook before each optimizer step. From Python 3.13 on any such hook changes what Dynamo does in
a region that calls `step()`: it runs a small frame of torch by itself, and counts no break there. (torch loops over the
hooks in a `with` block, and Dynamo forgets the block when the loop goes back.) So there both programs have a hook."""


def test_errors_inside_a_region_and_around_graph_breaks(tmp_path):
    hook = HOOK if sys.version_info >= (3, 13) else ""
    write(tmp_path, "program.py", PROGRAM.replace("net = ", f"{hook}net = ", 1))
    alone, watched = forked(tmp_path, "program.py"), outplace_forked(tmp_path, "run", "program.py")
    assert alone.code == watched.code == 0, watched.stderr
    assert alone.stdout == watched.stdout
    assert alone.stderr.count("Traceback") >= 2
    assert without_times(alone.stderr) == without_times(watched.stderr)


def without_times(text):
    """torch's log begins each line with the time and the process."""
    return re.sub(r"\b([A-Z]\d{4}) [\d:.]+ \d+ ", r"\1 ", text)
