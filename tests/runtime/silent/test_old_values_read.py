"""A write that the reader of the old values does not expect: programs with such bugs, and right ones that look alike.

Each bug has twins that differ in a few words. What is right prints another RESULT than the bug, and no report.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

HEAD = """\
import random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
random.seed(0)
"""
STEPS = """
optimizer = torch.optim.SGD(net.parameters(), 0.05)
for epoch in range(4):
    for x, y in data:
        loss = step(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("RESULT", loss.item())
"""
ROWS = """
data = [(torch.randn(6, 5), torch.randn(6, 5)) for _ in range(2)]
"""


MEAN = """
anchor, x, y = nn.Linear(5, 5), torch.randn(6, 5), torch.randn(6, 5)
class Corrected:
    def at(self):
        loss = F.mse_loss(anchor(x), y)
        loss.backward()
        self.mean = [p.grad for p in anchor.parameters()]
    def step(self, rows):
        loss = F.mse_loss(anchor(x[rows]), y[rows])
        loss.backward()  # !
        with torch.no_grad():
            return sum((p.grad - mean).sum() for p, mean in zip(anchor.parameters(), self.mean))
corrected = Corrected()
corrected.at()
print("RESULT", corrected.step(slice(0, 3)).item())
"""
STEERED = (
    """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
    def forward(self, x):
        x = self.b(x)
        return x + self.a(x)
net = Net()
shift = torch.ones(5)
def steer(module, args):
    args[0].add_(shift)  # !
net.a.register_forward_pre_hook(steer)
step = lambda x, y: F.mse_loss(net(x), y)
data = [(torch.randn(6, 5), torch.randn(6, 5)) for _ in range(2)]
"""
    + STEPS
)
START = (
    """
class Reservoir(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.rand(5, 5)
        self.register_buffer("initial", torch.ones(5))
        self.last = torch.ones(5)
    @torch.no_grad()
    def forward(self, rows):
        h = self.initial
        for row in rows:
            h.mul_(0.5).add_(torch.tanh(self.weight @ h + row), alpha=0.5)  # !
        return h.clone()
reservoir, net = Reservoir(), nn.Linear(5, 5)
step = lambda x, y: F.mse_loss(net(reservoir(x)), y[0])
data = [(torch.randn(6, 5), torch.randn(6, 5)) for _ in range(2)]
"""
    + STEPS
)


class Bug(NamedTuple):
    """A program whose wrong lines have the mark `# !`, the code, and twins: (old text, new text), which are right."""

    program: str
    code: str
    twins: tuple[tuple[str, str], ...]


def forward(body: str) -> str:
    """A network whose forward has this body."""
    lines = "\n".join("        " + line for line in body.strip().split("\n"))
    return f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5, inplace=True)
        self.register_buffer("adj", torch.rand(6, 6))
    def forward(self, x):
{lines}
net = Net()
step = lambda x, y: F.mse_loss(net(x), y)
{ROWS}{STEPS}"""


LOSS = f"""
net = nn.Linear(5, 3)
def step(x, y):
    return masked_loss(net(x), y)
def masked_loss(logits, target, ignored=9):
    valid = target != ignored
    target[~valid] = 0  # !
    losses = F.cross_entropy(logits, target, reduction="none")
    return (losses * valid).sum() / valid.sum()
data = [(torch.randn(6, 5), torch.tensor([0, 1, 9, 2, 9, 1]))]
{STEPS}"""
CLIPS = f"""
net = nn.Linear(6, 3)
clips = [torch.randn(4, 6) for _ in range(3)]
def augmented(clip):
    first = random.randint(0, 4)
    clip[:, first : first + 2] = 0  # !
    return clip
def step(i, y):
    return F.cross_entropy(net(augmented(clips[i])), y)
data = [(i, torch.randint(0, 3, (4,))) for i in range(3)]
{STEPS}"""
IMAGES = f"""
class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.images = np.random.default_rng(0).random((4, 5)).astype(np.float32)
        self.seen = np.zeros(4)
    def __len__(self):
        return 4
    def __getitem__(self, i):
        image = self.images[i]
        self.seen[i] += 1
        image -= 0.5  # !
        image /= 0.25  # !
        return torch.tensor(image), i % 2
net = nn.Linear(5, 2)
step = lambda x, y: F.cross_entropy(net(x), y)
data = torch.utils.data.DataLoader(Images(), batch_size=2)
{STEPS}"""
COUNTS = f"""
net = nn.Linear(5, 3)
def weights(labels, counts=torch.zeros(3)):
    counts.index_add_(0, labels, torch.ones(len(labels)))  # !
    return 1 / (counts + 1)
step = lambda x, y: F.cross_entropy(net(x), y, weight=weights(y))
data = [(torch.randn(6, 5), torch.tensor([0, 1, 1, 2, 0, 1]))]
{STEPS}"""
ROUND = f"""
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.mul_(4).round_() / 4  # !
    @staticmethod
    def backward(ctx, grad):
        return grad
net = nn.Linear(5, 5)
def step(x, y):
    h = net(x)
    return F.mse_loss(Round.apply(h) + 0, y) + 0 * LATER
{ROWS}{STEPS}""".replace(
    "return F.mse_loss(Round.apply(h) + 0, y) + 0 * LATER", "q = Round.apply(h)\n    return F.mse_loss(q + h, y)"
)
VECTORS = """
vectors = torch.randn(6, 5)
frozen = nn.Embedding.from_pretrained(vectors, freeze=True)
tuned = nn.Embedding.from_pretrained(vectors, freeze=False)
net = nn.ModuleList([frozen, tuned, nn.Linear(5, 5)])
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.5)
for _ in range(3):
    loss = F.mse_loss(net[2](frozen.weight + tuned(torch.arange(6))), torch.ones(6, 5))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # !
print("RESULT", loss.item())
"""

TASKS = """
net = nn.Linear(5, 4)
heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
optimizer = torch.optim.SGD([*net.parameters(), *heads.parameters()], 0.1)
for step in range(3):
    x, y = torch.randn(6, 5), torch.randn(6, 1)
    grads = {}
    for task, head in heads.items():
        optimizer.zero_grad(set_to_none=False)  # !
        loss = F.mse_loss(head(net(x)), y)
        loss.backward()  # !
        grads[task] = [p.grad for p in net.parameters()]
    for p, one, other in zip(net.parameters(), grads["a"], grads["b"]):
        p.grad = one - 0.5 * other
    optimizer.step()
print("RESULT", loss.item())
"""
HANDLES = """
net, grads = nn.Linear(5, 4), {}
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    net(torch.randn(3, 5)).pow(2).mean().backward()
    for name, p in net.named_parameters():
        grads[name] = p.grad
    total = sum(grad.norm() for grad in grads.values())
    optimizer.step()
print("RESULT", total.item())
"""

AVERAGES = """
net = nn.Linear(5, 3)
class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["m"] = state["v"] = torch.zeros_like(p)
            m, v = state["m"], state["v"]
            m.mul_(0.9).add_(p.grad, alpha=0.1)  # !
            v *= 0.99  # !
            v.addcmul_(p.grad, p.grad, value=0.01)
            p.addcdiv_(m, v.sqrt() + 1e-8, value=-0.01)
optimizer = Adam(net.parameters())
for _ in range(6):
    loss = net(torch.ones(4, 5)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
"""

ANCHORS = f"""
class Head(nn.Linear):
    def __init__(self):
        super().__init__(5, 5)
        self.register_buffer("anchors", torch.tensor([[3.0, 4.0, 2.0, 5.0, 8.0], [7.0, 8.0, 6.0, 9.0, 5.0]]))
net, strides = Head(), (2.0, 4.0)
def near(level, x):
    anchors = net.anchors[level]
    anchors /= strides[level]  # !
    return (x / anchors).abs() < 0.2
def step(x, y):
    fits = near(0, x) | near(1, x)
    return (F.mse_loss(net(x), y, reduction="none") * fits).mean()
{ROWS}{STEPS}"""

BUGS = {
    "anchors that each step divides": Bug(
        ANCHORS,
        "OUT336",
        (("anchors /= strides[level]", "anchors = anchors / strides[level]"), ("[level]\n", "[level].clone()\n")),
    ),
    "two averages in one tensor": Bug(
        AVERAGES,
        "OUT320",
        (('state["m"] = state["v"] = torch', 'state["m"], state["v"] = torch.zeros_like(p), torch'),),
    ),
    "gradients of tasks": Bug(
        TASKS, "OUT307", (("(set_to_none=False)", "()"), ("[p.grad for p", "[p.grad.clone() for p"))
    ),
    "a mean gradient that an object keeps": Bug(
        MEAN,
        "OUT307",
        (
            ("[p.grad for p in anchor.parameters()]", "[p.grad.clone() for p in anchor.parameters()]"),
            ("        loss.backward()  # !", "        anchor.zero_grad()\n        loss.backward()"),
        ),
    ),
    "a skip that the next level rectifies": Bug(
        forward("""
x, skips = self.a(x), []
for level in (self.b, self.b):
    skips.append(x)
    x = level(self.relu(x))  # !
return x + skips[0] + skips[1]
"""),
        "OUT320",
        (("ReLU(inplace=True)", "ReLU()"), ("skips.append(x)", "skips.append(x.clone())")),
    ),
    "an identity": Bug(
        forward("""
x = self.a(x)
identity = x
x = self.b(self.relu(x))  # !
return x + identity
"""),
        "OUT320",
        (("self.relu(x)", "self.relu(x.clone())"), ("identity = x\n", "identity = x.clone()\n")),
    ),
    "an argument that is read again": Bug(
        forward("""
h = self.a(x)
out = self.b(self.relu(h))  # !
return out + h
"""),
        "OUT320",
        (("self.relu(h)", "F.relu(h)"),),
    ),
    "dropout on what is read again": Bug(
        forward("""
h = self.a(x)
dropped = self.drop(h)  # !
return self.b(dropped) + h
"""),
        "OUT320",
        (("self.drop(h)", "self.drop(h.clone())"),),
    ),
    "features in a dict": Bug(
        forward("""
kept = {}
for i, layer in enumerate((self.a, self.relu, self.b, self.relu)):
    x = layer(x)  # !
    kept[i] = x
return kept[0] + kept[2]
"""),
        "OUT320",
        (("kept[i] = x", "kept[i] = x.clone()"), ("ReLU(inplace=True)", "ReLU()")),
    ),
    "two names of a result": Bug(
        forward("""
h = self.a(x)
skip = h
h += self.b(torch.tanh(h.clone()))  # !
return h * 2 + skip
"""),
        "OUT320",
        (("h += self.b", "h = h + self.b"),),
    ),
    "a function that returns what it wrote": Bug(
        "def with_place(t, place):\n    t += place  # !\n    return t\n"
        + forward("""
src = self.a(x)
query = with_place(src, self.b.bias)
return self.b(query) + src
"""),
        "OUT320",
        (("t += place", "t = t + place"),),
    ),
    "a target that a loss centres": Bug(
        f"""
net = nn.Linear(5, 5)
def centred(out, target):
    target -= target.mean(0)  # !
    return F.mse_loss(out - out.mean(0), target)
def step(x, y):
    y = y + 1
    out = net(x)
    loss = centred(out, y)
    return loss + F.l1_loss(out, y)
{ROWS}{STEPS}""",
        "OUT320",
        (("target -= target.mean(0)", "target = target - target.mean(0)"),),
    ),
    "a Function that marks nothing dirty": Bug(ROUND, "OUT324", (("x.mul_(4)", "x.mul(4)"),)),
    "labels that a loss overwrites": Bug(
        LOSS,
        "OUT336",
        (
            ("    valid =", "    target = target.clone()\n    valid ="),
            ("masked_loss(net(x), y)", "masked_loss(net(x), y.clone())"),
        ),
    ),
    "labels and a second mask": Bug(
        LOSS.replace("target[~valid] = 0", "target.masked_fill_(target == ignored, 0)"),
        "OUT336",
        (("target.masked_fill_(", "target = target.masked_fill("),),
    ),
    "stored clips": Bug(CLIPS, "OUT336", (("augmented(clips[i])", "augmented(clips[i].clone())"),)),
    "edges of a stored matrix": Bug(
        forward("""
adj = self.adj
dropped = torch.rand(adj.shape) < 0.1
adj[dropped] = 0  # !
return adj @ self.a(x)
"""),
        "OUT336",
        (("adj = self.adj\n", "adj = self.adj.clone()\n"),),
    ),
    "a part of the images": Bug(
        f"""
net = nn.Linear(5, 5)
images = torch.rand(6, 5)
def step(i, y):
    x, y = images[i : i + 3], y[:3]
    first = int(torch.randint(0, 4, ()))
    x[:, first : first + 2] = 0  # !
    return F.mse_loss(net(x), y)
data = [(0, torch.randn(6, 5)), (3, torch.randn(6, 5))]
{STEPS}""",
        "OUT336",
        (("images[i : i + 3], y", "images[i : i + 3].clone(), y"),),
    ),
    "boxes of a stored sample": Bug(
        f"""
net = nn.Linear(5, 2)
samples = [{{"boxes": torch.rand(6, 4) * 9}} for _ in range(2)]
def relative(sample):
    sample["boxes"][:, 0::2] /= 5  # !
    sample["boxes"][:, 1::2] /= 4  # !
    return sample
def step(i, y):
    return F.mse_loss(net(torch.ones(6, 5)), torch.cat([relative(samples[i])["boxes"][:, :2]]))
data = [(0, 0), (1, 0)]
{STEPS}""",
        "OUT336",
        (("relative(samples[i])", 'relative({"boxes": samples[i]["boxes"].clone()})'),),
    ),
    "arrays of a dataset": Bug(IMAGES, "OUT313", (("self.images[i]", "self.images[i].copy()"),)),
    "a default that is added up": Bug(
        COUNTS,
        "OUT339",
        (
            ("counts.index_add_", "counts.zero_()\n    counts.index_add_"),
            ("counts=torch.zeros(3)):", "counts=None):\n    counts = torch.zeros(3)"),
        ),
    ),
    "one matrix for two embeddings": Bug(
        VECTORS, "OUT321", (("vectors, freeze=False", "vectors.clone(), freeze=False"),)
    ),
    "frames of one buffer": Bug(
        f"""
import io
net = nn.Linear(5, 5)
class Reader:
    def __init__(self, stream):
        self.stream, self.buffer = stream, bytearray(20)
    def __iter__(self):
        for _ in range(6):
            self.stream.readinto(self.buffer)  # !
            yield torch.frombuffer(self.buffer, dtype=torch.float32).view(1, 5)
frames = torch.cat(list(Reader(io.BytesIO(torch.randn(6, 5).numpy().tobytes()))))
step = lambda x, y: F.mse_loss(net(frames), y)
{ROWS}{STEPS}""",
        "OUT311",
        ((".view(1, 5)", ".view(1, 5).clone()"),),
    ),
    "a copied transition": Bug(
        f"""
net = nn.Linear(5, 5)
items = []
def add(transition):
    items.append(transition)
    for goal in (1.0, 2.0):
        relabelled = dict(transition)
        relabelled["obs"][:2] = goal  # !
        items.append(relabelled)
add({{"obs": torch.zeros(5)}})
step = lambda x, y: F.mse_loss(net(torch.stack([item["obs"] for item in items])), y[:3])
{ROWS}{STEPS}""",
        "OUT319",
        (("dict(transition)", "{key: value.clone() for key, value in transition.items()}"),),
    ),
    "what each call starts from": Bug(
        START,
        "OUT320",
        (
            ("h = self.initial", "h = self.initial.clone()"),
            ("h = self.initial", "self.last = self.initial.clone()\n        h = self.last"),
            ("h.mul_(0.5)", "h = h.mul(0.5)"),
        ),
    ),
    "a schedule that is rescaled by itself": Bug(
        f"""
net = nn.Linear(5, 5)
class Schedule:
    def __init__(self):
        self.sigmas = torch.linspace(1, 0.1, 5)
    def scale(self):
        sigmas = self.sigmas
        sigmas /= sigmas.sum() + 1  # !
        return sigmas.sqrt()
schedule = Schedule()
step = lambda x, y: F.mse_loss(net(x) * schedule.scale(), y)
{ROWS}{STEPS}""",
        "OUT320",
        (("sigmas = self.sigmas", "sigmas = self.sigmas.clone()"), ("sigmas /=", "sigmas = sigmas /")),
    ),
    "a state that a helper rescales": Bug(
        f"""
net, state = nn.Linear(5, 5), {{}}
def unit(x):
    x = x.to(torch.float32)
    x.div_(x.norm() + 1)  # !
    return x @ x.T
def step(x, y):
    if not state:
        state["momentum"] = torch.zeros(6, 5)
    kept = state["momentum"]
    kept.mul_(0.9).add_(x)
    return F.mse_loss(net(unit(kept) @ x), y)
{ROWS}{STEPS}""",
        "OUT320",
        (("torch.float32)", "torch.float32, copy=True)"), ("unit(kept)", "unit(kept.clone())")),
    ),
    "what a hook adds to an input": Bug(
        STEERED,
        "OUT320",
        (
            ("args[0].add_(shift)", "return (args[0] + shift,)"),
            ("x + self.a(x)", "self.b(x) + self.a(x.clone())"),
        ),
    ),
    "labels that are the inputs": Bug(
        f"""
net = nn.Linear(5, 5)
def step(x, y):
    x = x.clone()
    labels = x
    x[torch.rand(6, 5) < 0.3] = 0  # !
    swap = torch.rand(6, 5) < 0.3
    x[swap] = torch.randn(6, 5)[swap]  # !
    return F.mse_loss(net(x), labels)
{ROWS}{STEPS}""",
        "OUT320",
        (("labels = x", "labels = x.clone()"),),
    ),
}
LEGAL = {
    "gradients that an object keeps to scale them": """
net = nn.Linear(5, 5)
class Clip:
    def __init__(self):
        self.gradients = None
    def __call__(self):
        self.gradients = self.gradients or [p.grad for p in net.parameters()]
        for gradient in self.gradients:
            gradient *= 0.5
    def norm(self):
        return sum((gradient - 0).norm() for gradient in self.gradients)
clip, total = Clip(), 0
for _ in range(3):
    net.zero_grad(set_to_none=False)
    net(torch.ones(2, 5)).pow(2).sum().backward()
    clip()
    total += clip.norm()
print("RESULT", total.item())
""",
    "a mask that has a name": f"""
net = nn.Linear(5, 5)
class Pruner:
    def __init__(self):
        self.masks = {{"weight": torch.ones(5, 5)}}
    def prune(self, name):
        mask = self.masks[name]
        alive = net.weight.detach()[mask.bool()].abs()
        mask[net.weight.detach().abs() <= alive.quantile(0.1)] = 0.0
        return mask.sum()
pruner = Pruner()
def step(x, y):
    pruner.prune("weight")
    return F.mse_loss(F.linear(x, net.weight * pruner.masks["weight"]), y)
{ROWS}{STEPS}""",
    "a bank that is normalised after each change": f"""
net = nn.Linear(5, 5)
class Bank:
    def __init__(self):
        self.rows = torch.randn(6, 5)
    def put(self, x):
        rows = self.rows
        rows[0] = x[0]
        rows /= rows.norm(dim=1, keepdim=True)
        return rows.sum()
bank = Bank()
def step(x, y):
    bank.put(x)
    return F.mse_loss(net(x) @ bank.rows.T, y @ bank.rows.T)
{ROWS}{STEPS}""",
    "a state that goes on": START.replace("initial", "state").replace("  # !", ""),
    "a state that goes on after a first value": START.replace("h = self.initial", "h = self.last")
    .replace("self.initial", "self.last")
    .replace("  # !", ""),
    "a hook that changes an input nobody else reads": STEERED.replace("x + self.a(x)", "self.a(x)").replace(
        "  # !", ""
    ),
    "a residual block": forward("""
h = self.relu(self.a(x))
identity = h
h = self.b(h)
h += identity
return self.relu(h)
"""),
    "a handle": forward("""
h = self.a(x)
left = h
left.mul_(0.5)
return self.b(h)
"""),
    "work on what was kept": forward("""
boxes = []
for layer in (self.a, self.b):
    box = layer(x)
    boxes.append(box)
    box.clamp_(0, 1)
return boxes[0] + boxes[1]
"""),
    "an activation that changes nothing": forward("""
h = self.a(x).abs()
out = self.relu(h)
return self.b(out + 1) + h
"""),
    "an input that the first layer changes, and of which only the size is read": """
net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 5))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    x = torch.randn(6, 5)
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen = x.size(0) + len(x)
print("RESULT", loss.item(), seen)
""",
    "the same input again": """
net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 5))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(6, 5)
for _ in range(3):
    out = net(x)
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
""",
    "statistics of a batch": f"""
net = nn.Linear(5, 5)
def standardise(x):
    mean = x.mean(0)
    x -= mean
    std = x.std(0)
    x /= std
    return mean, std
def step(x, y):
    x = x.clone()
    mean, std = standardise(x)
    return F.mse_loss(net(x) * std + mean, y)
{ROWS}{STEPS}""",
    "a state that moves": f"""
net = nn.Linear(5, 5)
position, velocity = torch.ones(5), torch.zeros(5)
def move(position, velocity):
    velocity -= 0.1 * position
    position += 0.1 * velocity
    return (position**2).sum()
def step(x, y):
    energy = move(position, velocity)
    return F.mse_loss(net(position.clone()), y[0]) + energy * 0
{ROWS}{STEPS}""",
    "an optimizer written by hand": """
net = nn.Linear(5, 3)
class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
            m, v = state["m"], state["v"]
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            p.addcdiv_(m, v.sqrt() + 1e-8, value=-0.01)
optimizer = Adam(net.parameters())
for _ in range(6):
    loss = net(torch.randn(4, 5)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
""",
    "a counter beside it": f"""
net = nn.Linear(5, 5)
class Scaler:
    calls = 0
    def __call__(self, x):
        own = x.clone()
        own /= own.sum()
        self.calls += 1
        return own
scaler = Scaler()
def step(x, y):
    return F.mse_loss(net(scaler(x)), y)
{ROWS}{STEPS}""",
    "gradients that have names": HANDLES,
    "masks that grow": f"""
net = nn.Linear(5, 5)
masks = [torch.ones(5, 5)]
def step(x, y):
    for mask in masks:
        gone = torch.randperm(25)[:2]
        mask.view(-1)[gone] = 0
    return F.mse_loss(F.linear(x, net.weight * masks[0]), y)
{ROWS}{STEPS}""",
    "moves of a game": """
net = nn.Linear(6, 6)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
board, free = torch.zeros(6), torch.ones(6)
for move in range(5):
    logits = net(board.clone()) + free.log()
    choice = int(torch.multinomial(logits.softmax(0), 1))
    board[choice], free[choice] = 1 - 2 * (move % 2), 0
    loss = -logits.log_softmax(0)[choice]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
""",
    "a mask from elsewhere": LOSS.replace(
        "valid = target != ignored", "valid = torch.tensor([True, True, False, True, False, True])"
    ).replace("# !", ""),
    "a mask that nobody else reads": LOSS.replace("(losses * valid).sum() / valid.sum()", "losses.sum()").replace(
        "# !", ""
    ),
    "an array that is clipped": IMAGES.replace("image -= 0.5", "image[image > 0.5] = 0.5").replace(
        "image /= 0.25", "image[image < 0.1] = 0.1"
    ),
    "a table of what was computed": COUNTS.replace(
        "counts.index_add_(0, labels, torch.ones(len(labels)))", "counts[0] = 3.0"
    ),
    "a network that follows": """
net, follower = nn.Linear(5, 3), nn.Linear(5, 3).requires_grad_(False)
for one, other in zip(follower.parameters(), net.parameters()):
    one.data = other.data
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    with torch.no_grad():
        choice = follower(torch.ones(2, 5)).argmax(1)
    loss = F.cross_entropy(net(torch.ones(2, 5)), choice)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
""",
}


def run(zygote: Zygote, folder: Path, program: str) -> tuple[dict[str, set[int]], str]:
    """The lines that were reported, by the code of the rule, and the result that the program prints."""
    (folder / "program.py").write_text(HEAD + program)
    found = zygote.run(folder, "program.py")
    assert found.status == 0, found.output
    assert "could not read" not in found.output  # an error in outplace
    lines: dict[str, set[int]] = {}
    for one in found.report["diagnoses"]:
        named = {mutation["site"]["line"] for mutation in one["mutations"]}
        lines[one["code"]] = lines.get(one["code"], set()) | named
    result = next(line for line in found.output.splitlines() if line.startswith("RESULT"))
    return lines, result


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_lines_are_told_and_the_twins_are_not(bug: Bug, zygote: Zygote, tmp_path: Path):
    lines = (HEAD + bug.program).split("\n")
    marked = {number for number, line in enumerate(lines, 1) if "# !" in line}
    told, result = run(zygote, tmp_path, bug.program)
    assert told == {bug.code: marked}
    for old, new in bug.twins:
        assert bug.program.count(old) == 1, old
        told, right = run(zygote, tmp_path, bug.program.replace(old, new))
        assert (told, right != result) == ({}, True)


@pytest.mark.parametrize("program", LEGAL.values(), ids=LEGAL)
def test_what_is_right_is_not_told(program: str, zygote: Zygote, tmp_path: Path):
    assert run(zygote, tmp_path, program)[0] == {}
