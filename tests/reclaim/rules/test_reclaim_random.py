"""Random little networks: whatever is suggested, each change alone and all of them together compute the same bits."""

from __future__ import annotations

import random

import pytest
import torch
from tests.reclaim.recorded import advised, changed, computed

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
w = nn.Parameter(torch.randn(32, 32) / 6)
v = nn.Parameter(torch.rand(32) + 0.5)
data = torch.randn(16, 32)
act = [nn.ReLU(), nn.LeakyReLU(0.2), nn.Identity(), nn.Dropout(0.0)]
"""

UNARY = [
    "F.relu({0})", "F.leaky_relu({0}, 0.1)", "torch.tanh({0})", "{0}.sigmoid()", "{0}.clamp(-1, 1)", "{0}.abs()",
    "{0}.square()", "{0} * 0.5", "2 * {0}", "{0} + 1", "-{0}", "{0} / 3.0", "{0}.sin()", "{0} * v", "{0} + v",
    "{0}.masked_fill(data > 0, 0.5)", "{0}.clone()", "{0}.view(16, 32)", "{0}.detach()", "F.layer_norm({0}, (32,))",
    "{0}.softmax(-1)", "{0}", "{0} @ w", "torch.relu({0})", "F.elu({0})", "F.dropout({0}, 0.3)", "{0}.exp()",
    "act[0]({0})", "act[1]({0})", "act[2]({0})", "act[3]({0})",
]  # fmt: skip
BINARY = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.where({0} > 0, {0}, {1})", "torch.maximum({0}, {1})"]


def program(seed: int) -> str:
    """A function of some names, each bound to something made of earlier ones, some of them again and again."""
    draw = random.Random(seed)
    names = ["a"]
    lines = ["def forward(x):", "    a = x @ w"]
    for _ in range(draw.randint(3, 9)):
        form = draw.choice(UNARY if draw.random() < 0.75 else BINARY)
        target = draw.choice(["a", "b", "c", "d"])
        lines.append(f"    {target} = {form.format(draw.choice(names), draw.choice(names))}")
        names = sorted({*names, target})
    read = draw.sample(names, draw.randint(1, len(names)))
    lines.append(f"    return {' + '.join(f'{name}.mean()' for name in read)}")
    lines += ["for step in range(2):", "    loss = forward(data) + (v * 0).sum()", "    loss.backward()"]
    lines += ["    print(loss.item())"]
    return HEAD + "\n".join(lines) + "\n"


@pytest.mark.parametrize("block", range(3))
def test_what_is_suggested_changes_no_bit(tmp_path, block):
    torch.set_num_threads(1)
    made = 0
    for seed in range(block * 30, block * 30 + 30):
        path = tmp_path / f"program{seed}.py"
        path.write_text(program(seed))
        advice, files = advised(path)
        found = [*advice.paying, *advice.others]
        truth = computed(path, path.read_text())
        for chosen in [[one] for one in found] + ([found] if len(found) > 1 else []):
            text = changed(files, path, chosen)
            assert computed(path, text) == truth, f"seed {seed}:\n{text}"
        made += len(found)
    assert made > 10  # or it says nothing
