"""Memory that is changed under another name: the bug, the line that kept it, and the program with that line mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

HEAD = """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.arange(12.0).view(4, 3) / 10


def train(value):
    optimizer.zero_grad()
    value.backward()
    optimizer.step()


"""

BUGS = {
    "a graph that is no operand of a saved product": (
        "rescaled-again",
        """
adj = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])


def normalised():
    a = adj  # kept
    a += torch.eye(4)  # written
    d = a.sum(1).rsqrt()
    a *= d[:, None]  # written
    a *= d[None]  # written
    return a


for _ in range(3):
    loss = net(normalised() @ x).pow(2).sum()
    train(loss)
print("RESULT", loss.item())
""",
        "adj.clone()",
    ),
    "dropout on what is cached": (
        "rescaled-again",
        """
cache = {i: x + i + 1 for i in range(2)}
for _ in range(3):
    for i in cache:
        f = cache[i]  # kept
        F.dropout(f, 0.4, inplace=True)  # written
        loss = net(f).pow(2).sum()
        train(loss)
print("RESULT", sum(f.sum().item() for f in cache.values()))
""",
        "cache[i].clone()",
    ),
    "a search that ends the program": (
        "rescaled-again",
        """
def entropy(logits, temperature):
    logits /= temperature  # written
    return torch.distributions.Categorical(logits=logits).entropy().mean().item()


train(net(x).sum())
with torch.no_grad():
    scores = net(x)
print("RESULT", [entropy(scores, t) for t in (0.5, 1.0, 2.0, 4.0, 8.0)])
""",
        ("entropy(scores, t)", "entropy(scores.clone(), t)"),
    ),
    "windows that overlap": (
        "expanded-part-written",
        """
windows = torch.arange(12.0).pow(2).unfold(0, 4, 2)  # kept
for w in windows:
    w -= w.mean()  # written
print("RESULT", windows.sum(1).tolist())
""",
        "torch.arange(12.0).pow(2).unfold(0, 4, 4)",
    ),
    "an index by a tensor into what is expanded": (
        "expanded-part-written",
        """
state = torch.zeros(1, 3).expand(4, 3)  # kept
done = torch.tensor([True, False, False, True])
state[done] = 1.0  # written
print("RESULT", state.tolist())
""",
        "torch.zeros(1, 3).repeat(4, 1)",
    ),
    "weights that are rounded and put back": (
        "meets-itself",
        """
def rounded():
    backup = {}
    for name, p in net.named_parameters():
        backup[name] = p.data  # kept
        p.data.mul_(4).round_().div_(4)  # written
    far = net(x).sum().item()
    for name, p in net.named_parameters():
        p.data = backup[name]
    return far


for _ in range(2):
    train(net(x).pow(2).sum())
    rounded()
print("RESULT", net.weight.tolist())
""",
        "p.data.clone()",
    ),
    "a sum in one of its terms": (
        "tensor-under-two-names",
        """
for _ in range(2):
    out = net(x)
    losses = {"fit": (out - x).pow(2).mean(), "sparse": out.abs().mean()}
    total = losses["fit"]  # kept
    total += 0.1 * losses["sparse"]  # written
    train(total)
    print("RESULT", {name: value.item() for name, value in losses.items()})
""",
        'losses["fit"].clone()',
    ),
    "a sum in the first of a list": (
        "tensor-under-two-names",
        """
for _ in range(2):
    terms = [net(x).pow(2).mean(), net(x).abs().mean(), net(x).exp().mean()]
    total = terms[0]  # kept
    for term in terms[1:]:
        total += term  # written
    train(total)
    print("RESULT", [value.item() for value in terms])
""",
        "terms[0].clone()",
    ),
    "a buffer of a checkpointed block": (
        "checkpoint-weights-changed",
        """
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
        self.register_buffer("scale", torch.ones(3))

    def forward(self, value):
        return self.net(value).tanh() * self.scale


block = Block()
for _ in range(2):
    out = checkpoint(block, x, use_reentrant=False)
    block.scale.mul_(0.5)  # written
    train(out.sum())
    print("RESULT", net.weight.tolist())
""",
        ("block.scale.mul_(0.5)", "block.scale = block.scale * 1.0"),
    ),
    "a gradient that a class keeps": (
        "gradient-by-reference",
        """
class Sum:
    def __init__(self):
        self.total = None

    def add(self):
        if self.total is None:
            self.total = [p.grad for p in net.parameters()]  # kept
        else:
            for total, p in zip(self.total, net.parameters()):
                total += p.grad

    def end(self):
        for total, p in zip(self.total, net.parameters()):
            p.grad = total / 2
        self.total = None


summed = Sum()
for i in range(4):
    net.zero_grad(set_to_none=False)  # written
    net(x + i).pow(2).sum().backward()  # written
    summed.add()
    if i % 2:
        summed.end()
        print("RESULT", net.weight.grad.tolist())
""",
        "[p.grad.clone() for p in net.parameters()]",
    ),
}

LEGAL = {
    "a trace that halves": """
trace = torch.arange(4.0)
for _ in range(4):
    trace /= 2
    train(net(x * trace[:, None]).sum())
""",
    "a buffer that is filled for each call": """
def scaled(image):
    image /= 255.0
    return image.mean().item()


buffer = torch.empty(4, 3)
for i in range(5):
    buffer.copy_(x * (i + 1))
    scaled(buffer)
train(net(x).sum())
""",
    "windows that do not overlap": """
table = torch.arange(12.0).view(3, 4).t()
for row in table:
    row -= row.mean()
""",
    "a mask that takes everything": """
state = torch.zeros(1, 3).expand(4, 3)
every = torch.ones(4, dtype=torch.bool)
state[every] = 1.0
""",
    "a handle for the weights": """
for _ in range(2):
    weight = net.weight.data
    weight.mul_(0.9)
    net.weight.data = weight
    train(net(x).sum())
""",
    "weights that are swapped and put back": """
average = {name: p.detach().clone() for name, p in net.named_parameters()}
for _ in range(2):
    train(net(x).sum())
    backup = {name: p.data for name, p in net.named_parameters()}
    for name, p in net.named_parameters():
        p.data = average[name]
    for name, p in net.named_parameters():
        p.data = backup[name]
""",
    "a sum that only the other terms are read after": """
for _ in range(2):
    terms = [net(x).pow(2).mean(), net(x).abs().mean()]
    total = terms[0]
    total += terms[1]
    train(total)
    print(terms[1].item())
""",
    "a block that counts": """
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, value):
        out = self.norm(self.net(value)).tanh()
        self.calls.add_(1)
        return out


block = Block()
for _ in range(3):
    train(checkpoint(block, x, use_reentrant=False).pow(2).sum())
""",
    "zeros that get another sign": """
keep = torch.tensor([True, False, True])
for _ in range(3):
    h = (net(x) - 1) * keep
    h.data[:, ~keep] = 0
    train(h.sin().sum())
""",
}


def run(zygote: Zygote, folder: Path, source: str) -> tuple[list[dict[str, Any]], list[str]]:
    (folder / "program.py").write_text(HEAD + source)
    done = zygote.run(folder, "program.py")
    assert done.status == 0, done.output
    return done.report["diagnoses"], [line for line in done.output.splitlines() if line.startswith("RESULT")]


def lines_of(source: str, word: str) -> set[int]:
    return {number for number, line in enumerate((HEAD + source).splitlines(), 1) if line.endswith(f"# {word}")}


def mended(source: str, mend: str | tuple[str, str]) -> str:
    """The program with another value on the line that keeps the memory, or with one text replaced by another."""
    if isinstance(mend, tuple):
        return source.replace(*mend)
    lines = [f"{line.split(' = ')[0]} = {mend}" if line.endswith("# kept") else line for line in source.splitlines()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", BUGS)
def test_the_writing_line_and_the_keeping_line_are_told(name: str, zygote: Zygote, tmp_path: Path):
    rule, source, _ = BUGS[name]
    found, _ = run(zygote, tmp_path, source)
    assert [one["rule"] for one in found] == [rule]
    assert {mutation["site"]["line"] for mutation in found[0]["mutations"]} == lines_of(source, "written")
    kept = lines_of(source, "kept")
    notes = [note for note in found[0]["notes"] if note.startswith("Kept without a copy")]
    assert [note for line in kept for note in notes if f"at line {line}:" in note] == notes
    assert bool(notes) == bool(kept)


@pytest.mark.parametrize("name", BUGS)
def test_the_mended_program_is_right_and_prints_other_numbers(name: str, zygote: Zygote, tmp_path: Path):
    _, source, mend = BUGS[name]
    found, numbers = run(zygote, tmp_path, mended(source, mend))
    assert found == []
    assert numbers != run(zygote, tmp_path, source)[1]


@pytest.mark.parametrize("name", LEGAL)
def test_legal_twins_are_not_told(name: str, zygote: Zygote, tmp_path: Path):
    assert run(zygote, tmp_path, LEGAL[name])[0] == []
