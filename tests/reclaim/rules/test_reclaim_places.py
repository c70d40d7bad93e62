"""Small programs: what is suggested, what must never be, and that each suggestion alone computes the same bits."""

from __future__ import annotations

import textwrap

import pytest
import torch
from tests.reclaim.recorded import advised, changed, computed

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

w = nn.Parameter(torch.randn(64, 64))
x = torch.randn(512, 64)
"""


def program(tmp_path, body):
    path = tmp_path / "program.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return path


def suggestions(path):
    """All suggestions with an edit, each of them tried by itself and all of them together."""
    torch.set_num_threads(1)
    advice, files = advised(path)
    found = [*advice.paying, *advice.others]
    truth = computed(path, path.read_text())
    for chosen in [[one] for one in found] + ([found] if len(found) > 1 else []):
        assert computed(path, changed(files, path, chosen)) == truth, [one.after for one in chosen]
    return {one.after for one in found}


FOUND = {
    "a temporary of an operation that keeps only its inputs": (
        """
        loss = F.relu(x @ w).sum()
        loss.backward()
        """,
        {"F.relu(x @ w, inplace=True)"},
    ),
    "a name that is bound anew": (
        """
        def forward(x):
            h = x @ w
            h = torch.tanh(h)
            h = h + x
            h = 2 * h
            return h.sum()
        forward(x).backward()
        """,
        {"torch.tanh_(h)", "h *= 2"},
    ),
    "a method, and a sum with the operand on the right": (
        """
        def forward(x):
            h = (x @ w).sigmoid()
            y = x @ w
            out = x + y
            return (h * 1.5).sum() + out.sum()
        forward(x).backward()
        """,
        {"(x @ w).sigmoid_()", "y.add_(x)"},
    ),
    "a mask over scores": (
        """
        def forward(x):
            scores = x @ w
            scores = scores.masked_fill(x > 0, -1.0)
            return scores.softmax(-1).square().sum()
        forward(x).backward()
        """,
        {"scores.masked_fill_(x > 0, -1.0)"},
    ),
    "a function imported by its name": (
        """
        from torch.nn.functional import leaky_relu
        leaky_relu(x @ w, 0.2).square().sum().backward()
        """,
        {"leaky_relu(x @ w, 0.2, inplace=True)"},
    ),
    "a module in a container, and one made in a loop": (
        """
        layers = []
        for _ in range(3):
            layers += [nn.Linear(64, 64), nn.LeakyReLU(negative_slope=0.1)]
        net = nn.Sequential(*layers, nn.Linear(64, 1))
        net(x).sum().backward()
        """,
        {"nn.LeakyReLU(negative_slope=0.1, inplace=True)"},
    ),
    "an instance norm's result, which is a view": (
        """
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.LeakyReLU(), nn.Conv2d(4, 1, 3))
        net(x.view(8, 1, 64, 64)).square().sum().backward()
        """,
        {"nn.LeakyReLU(inplace=True)"},
    ),
    "a name that is kept after its last use": (
        """
        def step():
            logits = x @ w
            loss = logits.log_softmax(-1).square().mean()
            loss.backward()
            return loss.item()
        step()
        """,
        {"del logits"},
    ),
    "a retained graph": (
        """
        losses = []
        for _ in range(3):
            loss = F.relu(x @ w).square().sum()
            loss.backward(retain_graph=True)
            losses.append(loss)
        """,
        {"loss.backward()", "F.relu(x @ w, inplace=True)"},
    ),
    "a total with its graph": (
        """
        total = 0.0
        for _ in range(3):
            total += (x @ w).exp().mean()
        loss = (x @ w).square().mean()
        loss.backward()
        print(total.item())
        """,
        {"total += (x @ w).exp().mean().detach()", "(x @ w).exp_()"},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_safe_place_is_found(tmp_path, name):
    body, expected = FOUND[name]
    assert suggestions(program(tmp_path, body)) == expected


NEVER = {
    "the operation before keeps its result": "F.relu((x @ w).softmax(-1)).sum().backward()",
    "the operation itself keeps its input": "(x @ w).sin().sum().backward()",
    "elu in place rounds otherwise": "F.elu(x @ w).sum().backward()",
    "the product needs both factors": """
        a, b = x @ w, x @ w.t()
        (a * b).sum().backward()
        """,
    "the input is read later": """
        def forward(x):
            h = x @ w
            y = F.relu(h)
            return y.sum() + h.mean()
        forward(x).backward()
        """,
    "the input is read later on a path that did not run": """
        def forward(x, training=True):
            h = x @ w
            y = F.relu(h)
            return y.sum() if training else h.sum()
        forward(x).backward()
        """,
    "the input is read once more in the same statement": """
        def forward(x):
            h = x @ w
            return (F.relu(h) - h.mean()).sum()
        forward(x).backward()
        """,
    "another name stands for it": """
        def forward(x):
            h = x @ w
            kept = h
            h = F.relu(h)
            return h.sum() + kept.sum()
        forward(x).backward()
        """,
    "it is an argument": """
        def act(h):
            return F.relu(h)
        act(x @ w).sum().backward()
        """,
    "it lies in a container": """
        def forward(x):
            h = x @ w
            seen = [h]
            h = F.relu(h)
            return h.sum() + seen[0].sum()
        forward(x).backward()
        """,
    "it is the program's data": "y = F.relu(x)\n(y @ w).sum().backward()\nprint(x.sum().item())",
    "it is a leaf": """
        v = torch.randn(64, 64, requires_grad=True)
        (x @ F.leaky_relu(v)).sum().backward()
        print(x.sum().item())
        """,
    "a part of another tensor": """
        def forward(x):
            a, b = (x @ w).chunk(2, dim=1)
            a = F.relu(a)
            return a.sum() + b.sum()
        forward(x).backward()
        """,
    "a hook watches it": """
        def forward(x):
            h = x @ w
            h.register_hook(lambda grad: print(grad.sum().item()))
            h = F.relu(h)
            return h.sum()
        forward(x).backward()
        """,
    "dropout hands out its input when it does nothing": """
        drop = nn.Dropout(0.5)
        def forward(x):
            h = x @ w
            y = F.leaky_relu(drop(h))
            return y.sum() + h.mean()
        forward(x).backward()
        drop.eval()
        print(forward(x).item())
        """,
    "a module of the user's own hands out its input when it does nothing": """
        class Drop(nn.Module):
            def forward(self, h):
                if not self.training:
                    return h
                return h * 0.5
        drop = Drop()
        def forward(x):
            h = x @ w
            y = F.leaky_relu(drop(h))
            return y.sum() + h.mean()
        forward(x).backward()
        """,
    "a forward hook has kept it": """
        seen = {}
        def keep(module, given, result):
            seen["first"] = result.detach()
        net = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(), nn.Linear(64, 1))
        net[0].register_forward_hook(keep)
        net(x).sum().backward()
        print(seen["first"].min().item())
        """,
    "a conversion hands out its input when there is nothing to convert": """
        def scaled(h):
            y = h.float()
            y = y * 0.5
            return y
        def forward(x):
            h = x.to(w.dtype) @ w
            return scaled(h).sum() + h.mean()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            forward(x).backward()
        print(forward(x).item())
        """,
    "so does a layout": """
        def forward(x, turned):
            h = x @ w
            y = h.t().contiguous() if turned else h.contiguous()
            y = y * 2
            return y.sum() + h.mean()
        forward(x, True).backward()
        print(forward(x, False).item())
        """,
    "an option hands out what a module's input was": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.act = nn.Linear(64, 64), nn.Identity(), nn.LeakyReLU()
            def forward(self, x, features=False):
                h = self.first(x)
                y = self.act(self.norm(h))
                return (y.sum(), h.sum()) if features else y.sum()
        net = Net()
        net(x).backward()
        print([one.item() for one in net(x, True)])
        """,
    "a numpy array lies over it": """
        def forward(x):
            h = x * 2
            seen = h.numpy()
            h = h.relu()
            return (h @ w).sum(), seen
        loss, seen = forward(x)
        loss.backward()
        print(seen.sum())
        """,
    "the module is also called by a line that did not run": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = nn.LeakyReLU()
            def forward(self, x):
                h = x @ w
                h = self.act(h)
                return h.sum()
            def features(self, x):
                return self.act(x) + x
        Net()(x).backward()
        """,
    "one of the module's inputs is needed": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = nn.ReLU()
            def forward(self, x):
                h = x @ w
                h = self.act(h)
                h = h.exp()
                return self.act(h).sum()
        Net()(x).backward()
        """,
    "another shape": """
        def forward(x):
            h = x[:1] @ w
            h = h + x
            return h.sum()
        forward(x).backward()
        """,
    "another type": """
        def forward(x):
            h = (x @ w).detach().int()
            h = h + 0.5
            return (h * w.sum()).sum()
        forward(x).backward()
        """,
    "the total goes into a backward": """
        total = 0.0
        for _ in range(3):
            total += torch.mm(x, w).mean()
        total.backward()
        """,
    "a second backward goes through the graph": """
        loss = torch.mm(x, w).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        """,
    "the name is read after the backward": """
        def step():
            logits = x @ w
            loss = logits.log_softmax(-1).square().mean()
            loss.backward()
            print(logits.sum().item())
        step()
        """,
    "the name is read by a function": """
        logits = x @ w
        def report():
            return logits.sum().item()
        loss = logits.log_softmax(-1).square().mean()
        loss.backward()
        report()
        """,
    "the name is read in another branch": """
        def step(check=False):
            logits = x @ w
            loss = logits.log_softmax(-1).square().mean()
            loss.backward()
            if check:
                print(logits)
        step()
        """,
}


@pytest.mark.parametrize("name", NEVER)
def test_nothing_is_suggested_where_somebody_could_see_it(tmp_path, name):
    assert suggestions(program(tmp_path, NEVER[name])) == set()


def test_a_blend_is_only_hinted_at(tmp_path):
    path = program(tmp_path, "mask = x > 0\nv = torch.zeros_like(x)\nh = x @ w\n(h + mask * (v - h)).sum().backward()")
    advice, _ = advised(path)
    assert [one.after for one in advice.hints] == ["torch.where(mask, v, h)"]
    assert all(one.edits == {} for one in advice.hints)


def test_square_and_power_keep_the_same(tmp_path):
    """`x ** 2` and `x.square()` need the same memory, so neither is suggested for the other."""
    peaks = set()
    for text in ("(x @ w) ** 2", "(x @ w).square()"):
        advice, _ = advised(program(tmp_path, f"y = {text}\ny.sum().backward()"))
        peaks.add(advice.before.peak)
    assert len(peaks) == 1
