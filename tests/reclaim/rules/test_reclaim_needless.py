"""Memory that is kept needlessly, in programs as people write them: the advice, and its bytes held to a second run.

Each program is recorded, changed as the advice says, and recorded again: the peak has to sink by what was promised.
Programs that do it right get no such advice.
"""

from __future__ import annotations

import textwrap

import pytest
import torch
from tests.reclaim.recorded import advised, changed, computed, record

from outplace.reclaim.observe.timeline import Account

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
"""


def written(tmp_path, body, name="program.py"):
    path = tmp_path / name
    path.write_text(HEAD + textwrap.dedent(body))
    return path


NEEDLESS = {
    "relu after an operation that keeps its own result": (
        """
        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.project, self.hidden, self.out = nn.Linear(32, 64), nn.Linear(64, 2048), nn.Linear(2048, 4)
            def forward(self, x):
                scores = torch.tanh(self.project(x))
                positive = F.relu(scores)
                pooled = positive.mean(1)
                del positive
                return self.out(torch.sin(self.hidden(pooled)))
        net = Scorer()
        for step in range(2):
            x, target = torch.randn(64, 16, 32), torch.randint(0, 4, (64,))
            F.cross_entropy(net(x), target).backward()
        """,
        "scores.clamp_min(0)",
    ),
    "a blend where one of two is chosen": (
        """
        net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
        def disturbed(images):
            noise = torch.randn_like(images)
            hidden = torch.rand(32, 32) < 0.3
            return images + hidden * (noise - images)
        for step in range(2):
            images = disturbed(torch.randn(16, 3, 32, 32))
            net(images).square().mean().backward()
        """,
        "torch.where(hidden, noise, images)",
    ),
    "a blend by a mask of ones and zeros": (
        """
        net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
        def disturbed(images):
            noise = torch.randn_like(images)
            mask = (torch.rand(32, 32) < 0.3).float()
            return images + mask * (noise - images)
        for step in range(2):
            images = disturbed(torch.randn(16, 3, 32, 32))
            net(images).square().mean().backward()
        """,
        "torch.where(mask.bool(), noise, images)",
    ),
    "one of two names, beside a function with names of its own": (
        """
        exec("width = 64")
        def evaluate(net):
            logits, loss = net(torch.randn(4, width)), None
            return logits.sum()
        def both(net):
            logits = net(torch.randn(128, width))
            return logits, F.cross_entropy(logits, torch.randint(0, 1000, (128,)))
        net = nn.Linear(width, 1000)
        for step in range(3):
            evaluate(net)
            logits, loss = both(net)
            loss.backward()
        """,
        "del logits",
    ),
    "a name after its last use, in the training loop": (
        """
        net = nn.Linear(64, 1000)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            logits = net(torch.randn(128, 64))
            loss = F.cross_entropy(logits, torch.randint(0, 1000, (128,)))
            loss.backward()
            optimizer.step()
            print(loss.item())
        """,
        "del logits",
    ),
    "names after their last use, in a forward": (
        """
        first, second, mix, last = (torch.randn(s) / 8 for s in [(16, 64), (16, 64), (128, 128), (128, 16)])
        def features(raw):
            left = raw @ first
            right = raw @ second
            both = torch.cat([left, right], dim=1)
            mixed = both @ mix
            return mixed @ last
        net = nn.Linear(16, 1)
        for step in range(2):
            loss = net(features(torch.randn(1024, 16))).square().mean()
            loss.backward()
        """,
        "del left, right",
    ),
    "a graph that is retained for nobody": (
        """
        encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.Sigmoid())
        classify, restore = nn.Linear(128, 10), nn.Linear(128, 64)
        parts = nn.ModuleList([encoder, classify, restore])
        optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
        for step in range(3):
            x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
            optimizer.zero_grad()
            z = encoder(x)
            first, second = F.cross_entropy(classify(z), y), F.mse_loss(restore(z), x)
            first.backward(retain_graph=True)
            second.backward(retain_graph=True)
            optimizer.step()
            print(first.item(), second.item())
        """,
        "second.backward()",
    ),
    "a loss that is added up with its graph": (
        """
        net = nn.Sequential(nn.Linear(64, 256), nn.Sigmoid(), nn.Linear(256, 10))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(2):
            optimizer.zero_grad()
            F.cross_entropy(net(torch.randn(64, 64)), torch.randint(0, 10, (64,))).backward()
            optimizer.step()
            total = 0.0
            for batch in range(4):
                loss = F.cross_entropy(net(torch.randn(64, 64)), torch.randint(0, 10, (64,)))
                total += loss
            print(total.item() / 4)
        """,
        "total += loss.detach()",
    ),
    "old gradients while the next forward runs": (
        """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            x, y = torch.randn(256, 256), torch.randint(0, 8, (256,))
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item())
        """,
        "optimizer.zero_grad()  # before line 10",
    ),
}


@pytest.mark.parametrize("name", NEEDLESS)
def test_it_is_found_and_saves_what_is_promised(tmp_path, name):
    torch.set_num_threads(1)
    body, after = NEEDLESS[name]
    path = written(tmp_path, body)
    advice, files = advised(path)
    found = {one.after: one for one in (*advice.paying, *advice.hints)}
    assert after in found
    one = found[after]
    text = changed(files, path, [one]) if one.edits else path.read_text().replace(one.before, one.after)
    other = tmp_path / "changed.py"
    other.write_text(text)
    saved = advice.before.peak - Account(record(other)).curve().peak
    assert saved > 0.01 * advice.before.peak
    assert one.alone == pytest.approx(saved, rel=0.01)
    if one.edits:
        assert computed(path, text) == computed(path, path.read_text())


def test_comments_stay_with_what_they_are_about(tmp_path):
    body = """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 4096))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            # forward
            logits = net(torch.randn(64, 256))
            loss = F.cross_entropy(logits, torch.randint(0, 8, (64,)))

            # backward
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    path = written(tmp_path, body)
    advice, files = advised(path)
    made = changed(files, path, advice.paying).split("range(3):")[1].replace("\n    ", "\n").strip().splitlines()
    assert made == [
        "optimizer.zero_grad()",
        "# forward",
        "logits = net(torch.randn(64, 256))",
        "loss = F.cross_entropy(logits, torch.randint(0, 8, (64,)))",
        "del logits",
        "",
        "# backward",
        "loss.backward()",
        "optimizer.step()",
    ]


RIGHT = {
    "a weighted mean of two is no choice": """
        net, gate = nn.Linear(32, 64), nn.Linear(32, 64)
        state = torch.zeros(128, 64)
        for step in range(2):
            x = torch.randn(128, 32)
            new = net(x)
            weight = torch.sigmoid(gate(x))
            state = state + weight * (new - state)
            state.square().mean().backward()
            state = state.detach()
        """,
    "relu between layers": """
        net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        for step in range(2):
            loss = (net(torch.randn(256, 32)) ** 2).mean()
            loss.backward()
        """,
    "gradients are let go of before the forward": """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(torch.randn(256, 256)), torch.randint(0, 8, (256,)))
            loss.backward()
            optimizer.step()
        """,
    "gradients are added up over several batches": """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            loss = F.cross_entropy(net(torch.randn(256, 256)), torch.randint(0, 8, (256,)))
            if step % 2 == 0:
                optimizer.zero_grad()
            loss.backward()
            if step % 2:
                optimizer.step()
        """,
    "old gradients are read after the forward, now and then": """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def norm():
            return sum(p.grad.norm().item() for p in net.parameters() if p.grad is not None)
        for step in range(3):
            loss = F.cross_entropy(net(torch.randn(256, 256)), torch.randint(0, 8, (256,)))
            if step == 100:
                print(norm())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "another gradient is asked for before": """
        net = nn.Sequential(nn.Linear(256, 512), nn.Sigmoid(), nn.Linear(512, 512), nn.Sigmoid(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def steepness(x):
            x.requires_grad_()
            return torch.autograd.grad(net(x).sum(), x, create_graph=True)[0].square().mean()
        for step in range(3):
            loss = steepness(torch.randn(256, 256))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "a list has the tensor as well": """
        net = nn.Linear(64, 1000)
        seen = []
        for step in range(2):
            logits = net(torch.randn(128, 64))
            seen.append(logits)
            loss = F.cross_entropy(logits, torch.randint(0, 1000, (128,)))
            loss.backward()
        """,
    "a total of plain numbers": """
        net = nn.Sequential(nn.Linear(64, 256), nn.Sigmoid(), nn.Linear(256, 1))
        total = 0.0
        for step in range(3):
            loss = net(torch.randn(64, 64)).square().mean()
            loss.backward()
            total += loss.item()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_that_does_it_right_is_left_alone(tmp_path, name):
    torch.set_num_threads(1)
    advice, _ = advised(written(tmp_path, RIGHT[name]))
    assert not advice.hints
    assert not [one.after for one in advice.paying if one.kind != "in-place"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("error ** 2", "error.square()"), ("F.relu(error)", "F.relu(error, inplace=True)")],
    ids=["a square", "a relu that the next layer keeps anyway"],
)
def test_two_ways_that_need_the_same(tmp_path, one, other):
    """So neither is advised for the other: the peak of the whole program is the same, to the byte."""
    body = """
        net, out = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), nn.Conv2d(8, 8, 3)
        for step in range(2):
            error = net(torch.randn(4, 3, 16, 16))
            error = {}
            out(error).mean().backward()
        """
    torch.set_num_threads(1)
    peaks = [
        Account(record(written(tmp_path, body.format(text), f"{number}.py"))).curve().peak
        for number, text in enumerate((one, other))
    ]
    assert peaks[0] == peaks[1]
