"""Small programs, each with what must be found beside the line: `# error: KIND`, `# warning: KIND`, or nothing."""

import re
import textwrap

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport numpy as np\n"

SNIPPETS = {
    "a result that is kept": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y += 1  # error: saved
        y.sum().backward()
    """,
    "kinds of dtype": """
        import math
        x, count, mask = torch.rand(3), torch.arange(3), torch.rand(3) > 0.5
        turn = torch.exp(2j * math.pi * x)
        x.mul_(turn)  # warning: shape-dtype
        x.mul_(turn.abs())
        turn *= x
        mask += 1  # error: shape-dtype
        mask &= torch.isfinite(x)
        count += mask
        count += torch.isfinite(x)
        count *= 0.5  # error: shape-dtype
        seen, marks = mask.sum(), mask * 1
        seen += 1
        marks += 2
        chosen = torch.where(mask, 0.0, 1.0)
        chosen /= 2
        torch.fft.fft(x).mul_(x)
        torch.fft.fft(x).abs().mul_(torch.view_as_complex(torch.rand(3, 2)))  # warning: shape-dtype
    """,
    "kinds of dtype that nobody knows": """
        import cmath
        x, counts = torch.rand(4, 3), torch.arange(5)
        turned = torch.exp(x * complex(0, 2))
        turned *= 1j
        listed = torch.tensor([cmath.exp(1j), 1.0])
        listed += 1j
        paired = torch.zeros(3, 2).view(torch.complex64)
        paired += 1j
        bounded, logs, mean = counts.clamp(min=0.5), torch.log1p(counts), counts.mean(dtype=torch.float32)
        bounded /= 2
        logs /= 2
        mean /= 2
        bits = (counts > 2).view(torch.uint8)
        bits += 1
    """,
    "how memory lies that nobody knows": """
        w = torch.ones(3, 4, requires_grad=True)
        h = torch.tensor(np.ones((4, 3)).T)
        loss = (h * w).sum()
        h.reshape(-1).zero_()  # warning: saved
        linear = nn.Linear(4, 3)
        linear.weight.data = torch.randn(4, 3).t()
        y = linear.weight.exp()
        y.reshape(-1).zero_()  # warning: saved
        (loss + y.sum()).backward()
    """,
    "loaders that put nothing together": """
        from torch.utils.data import DataLoader, Dataset, TensorDataset

        class Rows(Dataset):
            def __init__(self):
                self.noise = torch.ones(3)

            def __getitem__(self, i):
                self.noise *= 0.99
                return torch.ones(3) + self.noise

        total = torch.zeros(3)
        for row in DataLoader(Rows(), batch_size=None):
            total += row
        for row in DataLoader(TensorDataset(torch.rand(5, 3)), collate_fn=lambda rows: rows[0][0]):
            total += row
    """,
    "expanded memory, converted and loaded": """
        pose = torch.eye(4).expand(3, 4, 4).to(torch.rand(3))
        pose[:, :3, 3] = torch.rand(3, 3)  # warning: expanded
        own = torch.eye(4).expand(3, 4, 4).clone().to(torch.rand(3))
        own[:, :3, 3] = torch.rand(3, 3)
        conv = nn.Conv2d(6, 6, 2, groups=6)
        conv.weight.data = torch.ones(1, 1, 2, 2).expand(6, 1, 2, 2)
        conv.load_state_dict(torch.load("checkpoint"))  # error: expanded
        conv.load_state_dict({"bias": torch.zeros(6)}, strict=False)
        conv.load_state_dict(torch.load("checkpoint"), assign=True)
        copied = nn.Conv2d(6, 6, 2, groups=6)
        copied.weight.data = torch.ones(1, 1, 2, 2).repeat(6, 1, 1, 1)
        copied.load_state_dict(torch.load("checkpoint"))
    """,
    "a generator under no_grad, and one with a block of it": """
        @torch.no_grad()
        def decorated(table):
            for row in range(3):
                yield table[row]

        def inside(table):
            with torch.no_grad():
                for row in range(3):
                    yield table[row]

        fill = nn.Parameter(torch.randn(()))
        for row in decorated(torch.randn(3, 5)):
            row[0] = fill  # error: nograd-view
        for row in inside(torch.randn(3, 5)):
            row[0] = fill
    """,
    "what a loader makes of a dataset's samples": """
        from torch.utils.data import DataLoader, Dataset, Subset

        class Digits(Dataset):
            def __init__(self, n):
                self.images, self.labels = torch.rand(n, 12), torch.randint(0, 10, (n,))

            def __getitem__(self, i):
                image = self.images[i].clone()
                image -= torch.zeros(3, 12)  # error: shape-dtype
                return image, {"label": self.labels[i], "weight": 1.0}

        def together(samples):
            return torch.stack([image for image, _ in samples])

        net = nn.Linear(12, 10)
        for x, target in DataLoader(Subset(Digits(20), [1, 2, 3]), batch_size=4):
            x += 1
            p = net(x).softmax(-1)
            target["label"] /= 2  # error: shape-dtype
            target["weight"] /= 2
            p *= 0.5  # error: saved
            p.sum().backward()
        for x in DataLoader(Digits(20), collate_fn=together):
            x += 1
            p = net(x).softmax(-1)
            p *= 0.5  # error: saved
            p.sum().backward()
    """,
    "what lies in order, and what does not": """
        w = torch.randn(4, 6, requires_grad=True)
        h = w.exp()
        h.reshape(-1).mul_(2)  # error: saved
        turned = w.exp().t()
        turned.reshape(-1).mul_(2)  # warning: saved
        swapped = torch.randn(4, 6).exp()
        swapped.t_()
        kept = w.t() * swapped
        swapped.reshape(-1).mul_(2)  # warning: saved
        last = (w * 2).contiguous(memory_format=torch.preserve_format).exp()
        last.flatten().mul_(2)  # warning: saved
        (h.sum() + turned.sum() + kept.sum() + last.sum()).backward()
    """,
    "samples that a dataset keeps": """
        from torch.utils.data import DataLoader, Dataset

        class Kept(Dataset):
            def __init__(self, n):
                self.arrays, self.rows = np.random.rand(n, 12).astype(np.float32), torch.rand(n, 12)
                self.done, self.pages = [False] * n, [{"boxes": torch.rand(2, 4)} for _ in range(n)]

            def __getitem__(self, i):
                array = torch.from_numpy(self.arrays[i])
                array -= 0.5  # warning: silent-alias
                row, copied, boxes = self.rows[i], self.rows[i].clone(), self.pages[i]["boxes"]
                row /= 2  # warning: silent-other
                row.clamp_(0, 1)
                copied /= 2
                boxes[:, [0, 2]] *= 0.5  # warning: silent-other
                if not self.done[i]:
                    row.mul_(2)
                    self.done[i] = True
                return array + row, copied

        for x, y in DataLoader(Kept(5), batch_size=2):
            x += y
    """,
    "rows of a parameter, by a mask": """
        w, rows = nn.Parameter(torch.randn(3, 2)), torch.tensor([True, False, True])
        w[rows] -= 0.1 * w[rows]  # error: leaf
        with torch.no_grad():
            w[rows] -= 0.1 * w[rows]
        h = w * 2
        h[rows] -= 0.1
        y = h.exp()
        y[rows] *= 2  # error: saved
        y.sum().backward()
    """,
    "the memory that a Function's result is a view of": """
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return -grad

        w = torch.randn(3, requires_grad=True)
        h, other = w * 2, w * 3
        turned, copied = Same.apply(h), Same.apply(other).clone()
        h.mul_(2)  # error: custom-view
        other.mul_(2)
        (turned + copied).sum().backward()
    """,
    "parts of a parameter, read after its step": """
        w, v = nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(3, 2))
        optimizer = torch.optim.SGD([w, v], lr=0.1)
        rows = list(w)
        for _ in range(2):
            loss = sum(row.square().sum() for row in rows) + sum(row.sum() for row in v)
            loss.backward()
            optimizer.step()  # error: multi-view
    """,
    "parts that are made anew, or need no gradient": """
        w, fixed = nn.Parameter(torch.randn(3, 2)), torch.randn(3, 2)
        optimizer = torch.optim.SGD([w], lr=0.1)
        kept = list(fixed)
        for _ in range(2):
            loss = sum((row * one).sum() for row, one in zip(w, kept))
            loss.backward()
            optimizer.step()
            fixed.mul_(2)
    """,
    "one tensor for each level, or rows of one": """
        class Heads(nn.Module):
            def __init__(self, sizes):
                super().__init__()
                self.sized = nn.ModuleList(nn.Conv2d(size, 8, 1) for size in sizes)
                self.equal = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

            def forward(self, x):
                for i in range(3):
                    x[i] = self.sized[i](x[i])
                return x

            def reshaped(self, x):
                for i in range(3):
                    x[i] = self.equal[i](x[i])
                    x[i] = x[i].view(2, 2, 4, -1).permute(0, 1, 3, 2)
                return x

            def rows(self, x):
                for i in range(3):
                    x[i] = self.equal[i](x[i])  # warning: saved
                return x
    """,
    "an operation that keeps nothing": """
        w = torch.randn(3, requires_grad=True)
        y = w * 2
        y += 1
        y.sum().backward()
    """,
    "kept only if the other operand requires grad": """
        w = torch.randn(3, requires_grad=True)
        a, b = torch.ones(3), torch.ones(3)
        z = w * a
        a += 1  # error: saved
        u = b * torch.ones(3)
        b += 1
        (z + u).sum().backward()
    """,
    "kept and written through one tensor, which may be a copy of another": """
        w = torch.randn(3, 4, requires_grad=True)
        h = w * 2
        a, b = h.t().reshape(-1), h.t().reshape(-1)
        y = a[:3].pow(2)
        b.mul_(2)  # warning: saved
        a[2:].mul_(2)  # error: saved
        y.sum().backward()
    """,
    "a product of more than two dimensions copies what is turned round": """
        net, width = nn.Linear(4, 12), torch.randn(2, 3, 4)
        turned = net(width).view(2, 3, 3, 2, 2).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(turned[0], dim=-1), turned[1] * 2
        scores = q @ k.transpose(-2, -1)
        q *= 2  # warning: saved
        (scores + q.sum(-1, keepdim=True)).sum().backward()
        straight = net(width).view(2, 3, 3, 2, 2).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(straight[0].contiguous(), dim=-1), straight[1].contiguous() * 2
        scores = q @ k.transpose(-2, -1)
        q *= 2  # error: saved
        (scores + q.sum(-1, keepdim=True)).sum().backward()
    """,
    "what a checkpointed block saves of its own is made anew": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        for reentrant in (True, False):
            y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=reentrant)
            y += 1
            y.sum().backward()
    """,
    "writes inside a checkpointed block that is not reentrant": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        def at_the_end(x):
            y = (x * w).exp()
            y += 1  # it is not run again: nothing is saved after it
            return y
        def at_the_end_by_a_product(x):
            y = (x * w).exp()
            y *= w
            return y
        def between(x):
            y = (x * w).exp()
            y += 1  # error: silent-other
            return y.sin()
        def other_rows(x):
            rows = torch.zeros(4, 3)
            rows[0] = x
            for t in range(1, 4):
                rows[t] = torch.tanh(rows[t - 1] * w)
            return rows
        def rows_that_nobody_knows(x, first, second):
            rows = torch.zeros(4, 3) + x
            y = rows[first] * w
            rows[second] = y * w  # warning: silent-other
            return (y * rows).sum() * w
        for block in (at_the_end, at_the_end_by_a_product, between, other_rows):
            checkpoint(block, x, use_reentrant=False).sum().backward()
        checkpoint(rows_that_nobody_knows, x, int(input()), int(input()), use_reentrant=False).sum().backward()
    """,
    "writes inside a checkpointed block that is reentrant": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        def at_the_end(x):
            y = (x * w).exp()
            y += 1  # error: saved
            return y
        checkpoint(at_the_end, x, use_reentrant=True).sum().backward()
    """,
    "an argument of a checkpointed block": """
        from torch.utils.checkpoint import checkpoint
        w = torch.randn(3, requires_grad=True)
        x = w * 2
        y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
        x += 1  # error: saved
        (x + y).sum().backward()
    """,
    "modules that hold each other": """
        class Part(nn.Module):
            def __init__(self, whole):
                super().__init__()
                self.whole = whole
                self.fc = nn.Linear(3, 3)
            def __setattr__(self, name, value):
                if name == "whole":
                    self.__dict__[name] = value
                else:
                    super().__setattr__(name, value)
            def forward(self, x):
                return self.fc(x)
        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part(self)
                self.parts = nn.ModuleList([self.part])
        net = Whole()
        net.train()
        for module in net.modules():
            module.eval()
        y = net.part.whole.parts[0](torch.randn(2, 3)).exp()
        y += 1  # error: saved
        y.sum().backward()
    """,
    "containers that hold each other": """
        import copy
        root = {"value": torch.randn(3), "children": []}
        for i in range(2):
            root["children"].append({"value": root["value"] + i, "parent": root})
        held = [root]
        held.append(held)
        again = copy.deepcopy(held)
        print(root, again)
        w = again[0]["children"][1]["value"].requires_grad_()
        y = w.exp()
        y += 1  # error: saved
        y.sum().backward()
    """,
    "a step by hand leaves alone what no backward has reached": """
        body, a, b = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        def step(parameters):
            with torch.no_grad():
                for p in parameters:
                    if p.grad is not None:
                        p -= 0.1 * p.grad
                        p.grad = None
        for _ in range(2):
            z = torch.relu(body(torch.randn(5, 3)))
            first, second = a(z).square().mean(), b(z).square().mean()
            first.backward(retain_graph=True)
            step([*a.parameters(), *b.parameters()])
            second.backward()
            step([*a.parameters(), *b.parameters()])
    """,
    "a step by hand changes what a backward has reached": """
        body, a = nn.Linear(3, 4), nn.Linear(4, 1)
        z = torch.relu(body(torch.randn(5, 3)))
        first, second = a(z).square().mean(), a(z).exp().mean()
        first.backward(retain_graph=True)
        with torch.no_grad():
            for p in a.parameters():
                if p.grad is None:
                    continue
                p -= 0.1 * p.grad  # error: stepped
        second.backward()
    """,
    "a parameter that a module of one's own computes whenever it is read": """
        from torch.nn.utils import parametrize
        class Symmetric(nn.Module):
            def forward(self, w):
                return w @ w.t()
        class Gated(nn.Module):
            def forward(self, w):
                s = torch.sigmoid(w)
                s *= w  # error: saved
                return s
        square, gated, plain = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        parametrize.register_parametrization(square, "weight", Symmetric())
        parametrize.register_parametrization(gated, tensor_name="weight", parametrization=Gated())
        square.weight.clamp_(max=2.0)
        optimizer = torch.optim.SGD([*square.parameters(), *plain.parameters()], lr=0.1)
        x = torch.randn(4, 3)
        loss, other = square(x).sum(), plain(x).sum()
        loss.backward(retain_graph=True)
        optimizer.step()  # error: stepped
        (loss + other + gated(x).sum()).backward()
    """,
    "what vmap hands to a function is one of a batch": """
        def moved(x, y, index):
            h = x.exp()
            h += y  # error: saved
            k = x * 1
            k += y
            k[index] += 1  # warning: silent-other
            return h.sum() + k.sum()
        rows = nn.Linear(4, 4)(torch.ones(3, 4))
        torch.vmap(moved)(rows, torch.ones(3), torch.tensor([[0, 1], [1, 2], [2, 3]])).sum().backward()
    """,
    "what a function returns has names for its parts": """
        z = nn.Linear(3, 3)(torch.randn(4, 3))
        best, order = z.max(1).values, z.sort(1).indices
        y = best.square()
        best *= 2  # error: saved
        order += 1
        largest = torch.linalg.eigvalsh(z.t() @ z) + torch.linalg.eigh(z.t() @ z).eigenvalues
        s = torch.linalg.svd(z, full_matrices=False).S
        s += 1  # error: saved
        (y.sum() + best.sum() + largest.sum() + s.sum()).backward()
    """,
    "the data of a packed sequence is no `.data` of a tensor": """
        from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
        rnn = nn.GRU(3, 4, batch_first=True)
        packed = pack_padded_sequence(torch.randn(2, 5, 3), torch.tensor([5, 3]), batch_first=True)
        packed.data.mul_(0.5)
        hidden, _ = rnn(packed)
        size = hidden.data.pow(2).mean()
        hidden.data.mul_(0.5)  # error: saved
        again = PackedSequence(hidden.data * 2, hidden.batch_sizes)
        again.data.add_(1)
        (pad_packed_sequence(again)[0].sum() + size).backward()
    """,
    "records with some of their values replaced": """
        import dataclasses
        from typing import NamedTuple

        class Belief(NamedTuple):
            mean: torch.Tensor
            logvar: torch.Tensor

        @dataclasses.dataclass
        class State:
            h: torch.Tensor
            steps: int

        w = torch.rand(3, requires_grad=True)
        belief, loss = Belief(torch.zeros(3), w * 1.0), 0.0
        state = State(w.exp(), 0)
        for _ in range(3):
            belief = belief._replace(mean=belief.mean + 1)
            loss = loss + (belief.logvar ** 2).sum()
            belief.logvar.mul_(0.9)  # error: saved
            state = dataclasses.replace(state, steps=state.steps + 1)
        other = dataclasses.replace(state, h=w * 2)
        other.h += 1
        state.h += 1  # error: saved
        (loss + state.h + other.h).sum().backward()
    """,
    "what a module's own train merges": """
        class Merged(nn.Linear):
            def train(self, mode=True):
                super().train(mode)
                if not mode:
                    self.weight.data += 1  # error: silent-data
                return self

        first, layers = nn.Linear(3, 3), nn.Sequential(Merged(3, 3))
        loss = layers(first(torch.ones(2, 3))).sum()
        layers.eval()
        loss.backward()
    """,
    "a list of views of one place": """
        state, last, kept, fine = torch.zeros(2, 3), torch.zeros(3), [], []
        for t in range(4):
            state[0] = torch.rand(3)  # warning: silent-other
            kept.append(state[0])
            fine.append(state[1])
        rows, views = torch.zeros(4, 3), []
        for t in range(4):
            rows[t] = t
            views.append(rows[t])
        for other in input():
            other[0] = 1
            views.append(other[0])
    """,
    "a dict by pairs": """
        w = torch.rand(2, requires_grad=True)
        messages = {}
        for i, j in [(0, 1), (1, 2)]:
            messages[i, j] = torch.ones(2)
        for (i, j), message in messages.items():
            new = message * w
            message.copy_(new / new.sum())  # error: saved
        messages[0, 1] = w * 2
        messages[0, 1] += 1
        sum(messages.values()).sum().backward()
    """,
    "a sum of one of several": """
        def f(w, names):
            found = {}
            for name in names:
                found[name] = torch.ones(2)
            for message in found.values():
                new = message * w
                message.copy_(-new)  # error: saved
            return sum(found.values())

        f(torch.rand(2, requires_grad=True), input()).sum().backward()
    """,
    "one of several views, of a copy or not": """
        w = torch.randn(6, 4, requires_grad=True)
        for row in (w * 2).reshape(3, 8):
            row += 1  # error: multi-view
        first, second = (part.contiguous() for part in (w * 2).chunk(2))
        first += 1  # warning: multi-view
        (first + second).sum().backward()
    """,
    "the parameters of a distribution": """
        net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3)).sum().backward()
        mean, spread = net(torch.ones(3)).chunk(2)
        policy = torch.distributions.Independent(torch.distributions.Normal(mean, spread.exp()), 1)
        likely, sure = policy.log_prob(torch.ones(1)), policy.entropy()
        drawn = policy.sample()
        opt.step()  # error: stepped
        drawn += 1
        likely.sum().backward()
    """,
    "what has nothing to do with a distribution's place": """
        net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        spread = torch.ones(1, requires_grad=True)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(3)).sum().backward()
        policy = torch.distributions.Normal(net(torch.ones(3)), spread)
        opt.step()
        (policy.entropy() + policy.stddev).sum().backward()
    """,
    "lists that are emptied": """
        net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        a, b, c, d = [], [], [], {}
        for _ in range(3):
            for kept in (a, b, c):
                kept.append(net(torch.ones(3)))
            d["k"] = net(torch.ones(3))
            torch.cat([*a, *b, *c, *d.values()]).sum().backward(retain_graph=True)
            opt.step()
            del a[0]
            b[:] = []
            c.pop(0)
            del d["k"]
    """,
    "nobody goes backward": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y += 1
        print(y)
    """,
    "a backward before the write": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y.sum().backward()
        y.detach().add_(1)
    """,
    "no_grad as a context and as a decorator": """
        w = torch.randn(3, requires_grad=True)
        with torch.no_grad():
            y = w.exp()
            y += 1
            w -= 0.1

        @torch.no_grad()
        def update(p):
            p.mul_(0.9)

        update(w)
        w.mul_(0.9)  # error: leaf
    """,
    "views share their storage": """
        w = torch.randn(4, 4, requires_grad=True)
        y = w.sigmoid()
        y.t()[0].zero_()  # error: saved
        y.sum().backward()
    """,
    "copies do not": """
        w = torch.randn(4, requires_grad=True)
        y = w.sigmoid()
        z = y.clone()
        z.zero_()
        (y + z).sum().backward()
    """,
    "reshape may or may not share": """
        w = torch.randn(4, 4, requires_grad=True)
        y = w.sigmoid()
        y.to(torch.float64).zero_()  # warning: saved
        y.sum().backward()
    """,
    "branches are told apart": """
        def f(x, flag):
            w = torch.randn(3, requires_grad=True)
            if flag:
                y = w.exp()
            else:
                y = w * 2
                y += 1
            return y.sum()
    """,
    "a branch that writes": """
        def f(x, flag):
            w = torch.randn(3, requires_grad=True)
            y = w.exp()
            if flag:
                y += 1  # error: saved
            return y.sum()
    """,
    "a loop writes what the round before has kept": """
        cell = nn.Linear(3, 3)
        h = torch.zeros(5, 3)
        for t in range(1, 5):
            h[t] = cell(h[t - 1])  # error: saved
        h.sum().backward()
    """,
    "list and stack": """
        cell = nn.Linear(3, 3)
        rows = [torch.zeros(3)]
        for t in range(1, 5):
            rows.append(cell(rows[-1]))
        torch.stack(rows).sum().backward()
    """,
    "numbers, lists and arrays are no tensors": """
        i, names, a = 0, [], np.zeros(3)
        for k in range(3):
            i += 1
            names += ["x"]
            a[k] = 1
            a += 1
    """,
    "modules by class, through Sequential": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())
                self.head = nn.Linear(3, 1)

            def forward(self, x):
                y = self.body(x)
                y *= 2  # error: saved
                return self.head(y)
    """,
    "an in-place activation after one that keeps its result": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 3)
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                y = torch.tanh(self.fc(x))
                return self.relu(y)  # error: saved
    """,
    "an in-place activation after batch norm is fine": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.bn = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                out = self.relu(self.bn(self.conv(x)))
                out = self.bn(self.conv(out))
                out += x
                return self.relu(out)
    """,
    "an argument that a module has kept": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 3)

            def forward(self, x):
                x += self.fc(x)  # error: saved
                return x
    """,
    "a callee writes what the caller has kept": """
        def scale(t):
            t.mul_(2)  # error: saved
            return t

        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        scale(y).sum().backward()
    """,
    "a step between forward and backward": """
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        first, second = net(torch.ones(2, 3)).sum(), net(torch.zeros(2, 3)).mean()
        first.backward()
        opt.step()  # error: stepped
        second.backward()
    """,
    "a step after the backward": """
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            net(torch.ones(2, 3)).sum().backward()
            opt.step()
    """,
    "a step of other parameters": """
        actor, critic = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
        opt = torch.optim.Adam(actor.parameters())
        loss = critic(torch.ones(2, 3, requires_grad=True)).sum()
        opt.step()
        loss.backward()
    """,
    "leaves and their views": """
        p = nn.Parameter(torch.zeros(3))
        p[0] = 1.0  # error: leaf-view
        p.view(-1).add_(1)  # error: leaf-view
        p += 1  # error: leaf
        p.data.add_(1)
    """,
    "several views by one call": """
        y = torch.randn(4, 2, requires_grad=True) * 1
        a, b = y.chunk(2)
        a.mul_(2)  # error: multi-view
        for row in y:
            row += 1  # error: multi-view
    """,
    "a part of several that is perhaps copied, and then another part read": """
        x = torch.randn(2, 3, 4, requires_grad=True) * 1
        a, b = x.split(1, dim=1)[:2]
        flat = a.reshape(-1)
        flat[flat < 0.1] = 0.1  # warning: multi-view
        (b.reshape(-1) / flat).sum().backward()
    """,
    "entries of an expanded tensor": """
        n = 3
        x = torch.eye(n).unsqueeze(0).expand(5, n, n)
        for i in range(n):
            x[:, i, :] = torch.ones(5, n)  # error: expanded
        x[..., 1] = torch.ones(5, n)  # error: expanded
        x[0, :, 1] = torch.ones(n)
        x[:, 0] = 1.0
        y = torch.zeros(1, n).expand(1, n)
        y[:, 0] = torch.ones(1)

        def fill(rows):
            z = torch.zeros(1, 3).expand(rows.shape[0], 3)
            z[:, 0] = torch.ones(rows.shape[0])  # warning: expanded
    """,
    "integers that are to become floats": """
        i = torch.arange(4)
        i.clamp_(0, torch.tensor(2.5))  # error: shape-dtype
        i.clamp_(0, 2)
        i.mul_(0.5)  # error: shape-dtype
        i.div_(2, rounding_mode="floor")
        i.div_(2)  # error: shape-dtype
        i.fill_(0.5)
    """,
    "what recurrent modules keep": """
        rnn, batched, x = nn.GRU(2, 3), nn.GRU(2, 3, batch_first=True), torch.randn(4, 5, 2)
        h, c = torch.zeros(1, 5, 3), torch.zeros(1, 4, 3)
        out, _ = rnn(x, h)
        h += 1  # error: saved
        steps, unturned = torch.zeros(4, 6, 2), torch.zeros(4, 6, 2)
        for t in range(len(x)):
            step, c = batched(steps[:, t : t + 1], c)
            steps[:, t : t + 1] = 1.0  # error: saved
        whole, _ = batched(unturned)
        unturned += 1
        (out.sum() + step.sum() + whole.sum()).backward()
    """,
    "what a product of matrices keeps": """
        w = torch.randn(2, 2, requires_grad=True)
        p = w * 2
        p -= w @ p  # error: saved
        p.sum().backward()
    """,
    "an expanded target": """
        x = torch.zeros(1, 3).expand(4, 3)
        x += 1  # error: expanded
        y = torch.zeros(1, 3).expand(4, 3).clone()
        y += 1
    """,
    "out=": """
        w = torch.ones(3, requires_grad=True)
        torch.add(w, 1, out=torch.empty(3))  # error: out-arg
        torch.add(torch.ones(3), 1, out=torch.empty(3))
    """,
    "integers": """
        n = torch.zeros(3, dtype=torch.long)
        n /= 2  # error: shape-dtype
        n += 1
    """,
    "inference tensors": """
        with torch.inference_mode():
            t = torch.zeros(3)
        t += 1  # error: inference
    """,
    ".data hides the write": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y.data.add_(1)  # error: silent-data
        y.sum().backward()
    """,
    "numpy shares the memory": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        a = y.detach().numpy()
        a[0] = 0  # error: silent-alias
        y.sum().backward()
    """,
    "a numpy copy does not": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        a = y.detach().numpy().copy()
        a[0] = 0
        y.sum().backward()
    """,
    "a custom Function keeps what it saves": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 2 * x * g

        w = torch.randn(3, requires_grad=True)
        y = w * 1
        z = Square.apply(y)
        y.add_(1)  # error: saved
        z.sum().backward()
    """,
    "two tests of one flag go the same way": """
        def f(x, flag, other):
            w = torch.randn(3, requires_grad=True)
            if flag:
                y = w.exp()
            else:
                y = w * 2
            if not flag:
                y += 1
            if other is None:
                z = w.exp()
            else:
                z = w * 2
            if other is not None:
                z += 1
            return (y + z).sum()
    """,
    "a layer that may be missing": """
        class Net(nn.Module):
            def __init__(self, project):
                super().__init__()
                self.embed, self.norm = nn.Embedding(5, 4), nn.LayerNorm(4)
                self.project = nn.Linear(4, 4) if project else None

            def forward(self, tokens, positions=None):
                x = 2 * self.embed(tokens)
                if self.project is not None:
                    x = self.project(x)
                if positions is not None:
                    x += positions
                return self.norm(x)
    """,
    "what an option of the constructor decides, it decides everywhere": """
        class Net(nn.Module):
            def __init__(self, gated):
                super().__init__()
                self.gated = gated
                if gated:
                    self.body = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())
                else:
                    self.body = nn.Linear(4, 4)

            def forward(self, x):
                y = self.body(x)
                if not self.gated:
                    y += 1
                return y
    """,
    "one of several values": """
        def f(flag):
            w = torch.randn(3, requires_grad=True)
            y = w.exp() if flag else w * 2
            y += 1  # warning: saved
            return y.sum()
    """,
    "each of several values": """
        def f(flag):
            w = torch.randn(3, requires_grad=True)
            y = w.exp() if flag else w.tanh()
            y += 1  # error: saved
            return y.sum()
    """,
    "a leaf under one of several keys": """
        def flatten(params, devices):
            flat = {}
            for device in devices:
                flat[device] = params[0].new(10)
                for p in params:
                    flat[device][0:3].copy_(p.data.view(-1))
                flat[device] = nn.Parameter(flat[device])
            return flat
    """,
    "annotations are read": """
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(4)

            def forward(self, features: dict[str, torch.Tensor], levels: list[torch.Tensor]):
                features["x"] = self.norm(features["x"])
                for i in range(3):
                    levels[i] = self.norm(levels[i])
                return features, levels
    """,
    "who unpacks means the tuple": """
        layer = nn.Linear(3, 3)

        def encode(x, lengths=None):
            h = layer(x)
            if lengths is None:
                return h
            return h, lengths

        def forward(x, lengths):
            h, lengths = encode(x, lengths)
            h += 1
            return h
    """,
    "a size that is not known may be several": """
        def table(start: torch.Tensor, rows, columns):
            counts = torch.arange(rows)
            grid = torch.empty(counts.shape + torch.Size([columns]))
            grid[..., 0] = counts
            return grid
    """,
    "each round has an item of its own": """
        def prepare(masks):
            prepared = []
            for mask in masks:
                mask[0] = 0
                prepared.append(mask)
            return torch.stack(prepared)
    """,
    "a layer that gives a tuple gives one for each of several values": """
        attention, lin = nn.MultiheadAttention(4, 2), nn.Linear(4, 4)

        def encode(x, flag):
            x = lin(x) if flag else lin(x) * 2
            x, weights = attention(x, x, x)
            x += 1
            return x
    """,
    "going through one of several lists": """
        class Net(nn.Module):
            def __init__(self, gated):
                super().__init__()
                self.gated = gated
                if gated:
                    self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())])
                else:
                    self.layers = nn.ModuleList([nn.Linear(4, 4)])

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                if not self.gated:
                    x += 1
                return x
    """,
    "the loss of each sample is not the loss": """
        out = nn.Linear(4, 5)(torch.randn(6, 2, 4)).log_softmax(-1)
        lengths = torch.tensor([6, 6]), torch.tensor([2, 2])
        loss = F.ctc_loss(out, torch.ones(2, 2, dtype=torch.long), *lengths, reduction="sum")
        loss /= 2
        loss.backward()
    """,
    "only the way to the inputs counts": """
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        a, b = x.exp(), w.tanh()
        loss = (a + b).sum()
        a += 1  # error: saved
        b += 1
        torch.autograd.grad(loss, x)
    """,
    "a registry that a decorator fills": """
        OPERATIONS, SEEN = {}, {"count": [0]}

        def register(function):
            name = function.__name__
            if name in SEEN:
                SEEN[name] = [name]
            for count in SEEN.values():
                count[0] += 1
            if name not in OPERATIONS:
                OPERATIONS["grow"] = function
            return function

        @register
        def grow(y):
            y += 1  # error: saved
            return y

        w = torch.randn(3, requires_grad=True)
        OPERATIONS["grow"](w.exp()).sum().backward()
    """,
    "functions that call themselves on what nobody knows": """
        w, depth = torch.randn(3, requires_grad=True), int(input())

        def size(depth, width):
            if isinstance(depth, list):
                return [size(a, b) for a, b in zip(depth, width)]
            return depth + width

        def spoil(y, depth):
            y += size(depth, input())  # error: saved
            return spoil(y, depth) if depth else y

        spoil(w.exp(), depth).sum().backward()

        def train():
            z, kept = w * 2, []

            def walk(depth):
                z.add_(1)  # error: saved
                kept.append(z * z)
                if depth:
                    walk(depth)

            walk(depth)
            torch.stack(kept).sum().backward()

        train()
    """,
    "any and all of what is known": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        if any([isinstance(size, (tuple, list)) for size in [1, 2]]) or not all(flag for flag in (True, 1)):
            y += 1
        if any([None, 3]) and all([]):
            y += 2  # error: saved
        y.sum().backward()
    """,
    "state that is handed in, and an option by which it is changed": """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(1, 1, 3)

            def forward(self, previous: torch.Tensor, last=None, mask=None):
                score = self.conv(previous)
                if last is not None:
                    previous[:, last] = 0  # warning: saved
                weights = score.softmax(-1)
                if mask is not None:
                    weights.masked_fill_(mask, 0)  # error: saved
                return weights

        class Always(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(1, 1, 3)

            def forward(self, previous: torch.Tensor, last=None):
                score = self.conv(previous)
                if last is None:
                    previous[:, 0] = 0  # error: saved
                return score
    """,
    "numbers that are made tuples": """
        import collections.abc
        from itertools import repeat

        def pair(x):
            if isinstance(x, collections.abc.Iterable) and not isinstance(x, str):
                return tuple(x)
            return tuple(repeat(x, 2))

        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        if pair(3)[1] != 3 or pair([1, 2])[0] == 2 or len(pair(1)) > 2:
            y += 1
        if pair("a")[1] == "a":
            y += 2  # error: saved
        y.sum().backward()
    """,
    "numbers that are counted up and appended": """
        def offsets(sizes, start):
            found = []
            for size in sizes:
                found.append((start, size))
                start += size
            return found

        def totals(values: torch.Tensor):
            total, found = torch.zeros(3), []
            for value in values:
                total += value  # warning: silent-other
                found.append(total)
            return found
    """,
    "what is said to be for inference only": """
        class Partial(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(1, 1, 3)

            def forward_slices(self, x: torch.Tensor):
                # only for inference
                x = x.clone()
                x[:, :1] = self.conv(x[:, :1])  # warning: saved
                return x

            def forward(self, x: torch.Tensor):
                '''Not only for the impatient.'''
                x = x.clone()
                x[:, :1] = self.conv(x[:, :1])  # error: saved
                return x
    """,
    "a module called with parameters that nobody knows": """
        def predict(weights, x: torch.Tensor):
            layer = nn.Linear(3, 3)
            y = torch.func.functional_call(layer, {"weight": weights["w"]}, (x,)).exp()
            y += 1  # error: saved
            return y
    """,
    "a state that is put back where the module has a way to": """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.decay = nn.Parameter(torch.ones(6))
                self.v = torch.zeros(1)

            def forward(self, x):
                self.v = self.v * self.decay + x
                return self.v

            def reset(self):
                self.v = torch.zeros(1)

        net = nn.Sequential(nn.Linear(4, 6), Cell())
        other = nn.Sequential(nn.Linear(4, 6), Cell())
        optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        for step in range(2):
            x = torch.randn(3, 4)
            loss = net(x).sum() + net(x).sum()
            loss.backward()
            optimizer.step()
            for module in net.modules():
                if hasattr(module, "reset"):
                    module.reset()
        for step in range(2):
            loss = other(x).sum() + other(x).sum()
            loss.backward()
            optimizer.step()  # warning: stepped
            if input():
                other[1].reset()
    """,
    "another type of a tensor": """
        w = torch.randn(3, requires_grad=True)
        z = (w * 2).type(torch.float64).exp()
        z += 1  # error: saved
        if z.type() == "torch.DoubleTensor":
            z.sum().backward()
    """,
    "sizes whose number is not known": """
        x, sizes = torch.rand(4, 5), input().split()
        x /= torch.norm(x.view(4, -1, *(1 for _ in range(x.dim() - 2))), dim=1, keepdim=True)
        x += torch.randn(4, *sizes) + x.reshape(-1, *map(int, sizes))
        x += torch.randn(4, *[3])  # error: shape-dtype
        whole = torch.ceil(torch.rand(10, 4, 3)).type(torch.int32) * torch.tensor([1, 2, 3])
        whole += torch.ones(4, 3, dtype=torch.int32)
        pairs = torch.hstack((torch.zeros(8, 1), torch.zeros(8, 2)))
        pairs += torch.cat((torch.ones(8, 1), torch.ones(8, 2)), dim=1)
        torch.nn.utils.rnn.pad_sequence([torch.ones(3), torch.ones(2)]).add_(torch.ones(3, 2))
        torch.Tensor(5).copy_(torch.randn(5))
        torch.Tensor([5]).copy_(torch.randn(5))  # error: shape-dtype

        def first(x, rest: torch.Tensor):
            out = torch.zeros((4, *rest.shape))
            out[0] = torch.randn(2, 3)
            return out

        def linear(x, make):
            weight = torch.randn(5, 3)
            for y in (nn.functional.linear(make(x), weight), make(x) * weight):
                out = torch.zeros_like(y)
                out[0] = torch.randn(2, 2, 5)
            return out
    """,
    "states that code nobody can see may put back": """
        from somewhere import reset_net

        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.decay = nn.Parameter(torch.ones(6))
                self.v = torch.zeros(1)

            def forward(self, x):
                self.v = self.v * self.decay + x
                return self.v

        class Kept(Cell):
            def __setattr__(self, name, value):
                self.__dict__.setdefault("states", {})[name] = value

        net, kept = nn.Sequential(nn.Linear(4, 6), Cell()), Kept()
        optimizer = torch.optim.SGD([*net.parameters(), *kept.parameters()], lr=0.1)
        for step in range(3):
            x = torch.randn(3, 4)
            loss = net(x).sum() + kept(x).sum()
            loss.backward()
            optimizer.step()
            reset_net(net)
    """,
    "writes to what an index has copied": """
        class Condensed(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mask", torch.ones(3, 6))

            def drop(self, scores: torch.Tensor):
                self.mask[:, self.mask.sum(0).argsort()[:2]].fill_(0)  # error: silent-other
                self.mask[self.mask.sum(1).argmax()].fill_(0)
                self.mask[scores].fill_(0)
                picked = self.mask[[0, 1]]
                picked.fill_(0)
                picked[0] = 3
                return picked

        x, rows = torch.randn(5, 3), [torch.zeros(3), torch.zeros(3)]
        x[x > 0].zero_()  # error: silent-other
        x[x > 0][0] += 1  # error: silent-other
        x[[0, 1]].mul_(2).add_(1)  # error: silent-other
        x[torch.tensor([1, 2])].view(-1)[0] = 1  # error: silent-other
        x[x > 0] *= 2
        x[2:].mul_(2)
        x[1:][0] = 1
        rows[0].add_(1)
        y = x[x > 0].mul_(2)
    """,
    "read by the side of what is written, turned": """
        w = torch.randn(3, 4, 4, requires_grad=True)
        a, b, c, d = w * 2, w * 2, w * 2, w * 2
        a[1] = a[1].transpose(-2, -1)  # error: overlap
        b += b.mT  # error: overlap
        c[1] = c[1].transpose(-2, -1).clone()
        d[1] = d[0].transpose(-2, -1)
        (a + b + c + d).sum().backward()
    """,
    "modules that were given to functions of Python keep what they hold": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(3, 3)
            def forward(self, x):
                self.out = self.lin(x).exp()
                return x
        blocks = nn.ModuleList([Block(), Block()])
        x = torch.ones(2, 3)
        for block in blocks:
            x = block(x)
        total = 0
        for i, block in enumerate(blocks):
            total = total + block.out
            block.out.mul_(i)  # error: saved
        total.sum().backward()
    """,
    "a write that is refused brings no graph into its target": """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        memory = torch.zeros(8, 3)
        with torch.no_grad():
            slot = memory[:4]
        for _ in range(3):
            out = net(torch.ones(4, 3)).exp()
            slot.copy_(out)  # error: nograd-view
            loss = (out @ memory.t()).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
    """,
    "a kept state that is copied onto itself": """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        before = net.state_dict()
        for _ in range(2):
            loss = net(torch.ones(3)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()  # error: silent-other
            net.load_state_dict(before)
    """,
    "parts of expanded memory": """
        w = torch.randn(3, 5, requires_grad=True)
        a, b, c = ((w * 2).unsqueeze(1).expand(-1, 4, -1) for _ in range(3))
        with torch.no_grad():
            a[:, :2] = torch.zeros(3, 2, 5)  # error: expanded
            b[:, :1] = torch.zeros(3, 1, 5)
            c[:, 3] = torch.zeros(3, 5)
    """,
    "weights that every call masks anew": """
        class Masked(nn.Linear):
            def forward(self, x):
                self.weight.data *= self.mask
                return super().forward(x)

        class Bounded(nn.Linear):
            def forward(self, x):
                self.weight.data.clamp_(-1, 1)
                return super().forward(x)

        class Halved(nn.Linear):
            def forward(self, x):
                self.weight.data *= 0.5  # error: silent-data
                return super().forward(x)

        masked, bounded, halved = Masked(3, 3), Bounded(3, 3), Halved(3, 3)
        masked.mask = torch.ones(3, 3).tril()
        x = torch.ones(2, 3, requires_grad=True)
        masked(masked(x).relu()).sum().backward()
        bounded(bounded(x).relu()).sum().backward()
        halved(halved(x).relu()).sum().backward()
    """,
    "a switch of a module among many": """
        class Halving(nn.Module):
            on = False

            def forward(self, x):
                if self.on:
                    x.data.mul_(0.5)  # error: silent-data
                return x

        halving = Halving()
        net = nn.Sequential(*(nn.Linear(3, 3) for _ in range(12)), nn.Sigmoid(), halving, nn.Linear(3, 3))
        for module in net.modules():
            if isinstance(module, Halving):
                module.on = True
        net(torch.ones(2, 3)).sum().backward()
    """,
    "a Function that overwrites what it is given": """
        class Shifted(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x -= x.amax()  # warning: silent-other
                return x.exp()

            @staticmethod
            def backward(ctx, grad):
                return grad

        class Declared(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x -= x.amax()
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad

        class Alone(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x -= x.amax()
                return x.exp()

            @staticmethod
            def backward(ctx, grad):
                return grad

        lin, x = nn.Linear(3, 3), torch.ones(2, 3)
        a, b, c = lin(x), lin(x), lin(x)
        loss = Shifted.apply(a).sum() + a.sum() + Declared.apply(b).sum() + b.sum() + Alone.apply(c).sum()
        loss.backward()
    """,
    "arrays of one memory in a list": """
        class System:
            def __init__(self):
                self.x, self.y = torch.ones(3), torch.ones(3)

            def move(self):
                self.x += 0.1  # warning: silent-alias
                self.y += 0.1

        def as_array(tensor):
            return tensor.detach().cpu().numpy()

        system, frames, copies, sums = System(), [], [], {"y": []}
        for _ in range(4):
            system.move()
            frames.append(as_array(system.x))
            copies.append(as_array(system.y).copy())
            sums["y"].append((system.y * 2).numpy())
    """,
    "what is put back is what is there": """
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.zeros(4, 3))
                self.count = torch.zeros(4)

            def write(self, rows, values):
                self.state[rows] = values.detach()  # warning: silent-other
                self.count[rows] += 1

            def keep(self):
                return self.state, self.count.clone()

            def restore(self, state, count):
                self.state = state
                self.count = count

            def grow(self):
                count = self.count
                count += 1
                self.count = count

        memory = Memory()
        kept = memory.keep()
        memory.write([0], torch.ones(1, 3))
        memory.grow()
        memory.restore(*kept)
    """,
    "a mask between two others": """
        net = nn.Linear(3, 3)
        mask = torch.ones(3, 3).tril()
        x = torch.ones(2, 3)
        for _ in range(2):
            net.weight.data.mul_(mask)  # error: silent-data
            x = net(x).relu()
            net.weight.data.add_(1)  # error: silent-data
        x.sum().backward()
    """,
    "a result that is changed through .data, and computed with": """
        lin = nn.Linear(3, 3)
        x = torch.ones(2, 3)
        a, b, c, d, e, f = lin(x), lin(x), lin(x), lin(x), lin(x), lin(x)
        a.data.clamp_(-1, 1)  # warning: silent-data
        b.data[:, 0] *= 2  # warning: silent-data
        c.data.add_(1)
        d.data.round_()
        f.data.mul_(4).round_().div_(4)
        g, h, i, mask = lin(x), lin(x), lin(x), torch.ones(2, 3) > 0
        g.data[mask] *= 2  # warning: silent-data
        h.data[mask] = 0  # warning: silent-data
        i.data[mask] = float("-inf")
        loss = (a + b + c + d + e + f + g + h + i.softmax(1)).sum()
        e.data.mul_(2)
        loss.backward()
    """,
}

_EXPECTED = re.compile(r"#\s*(error|warning): ([\w-]+)")


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet(name: str) -> None:
    source = PRELUDE + textwrap.dedent(SNIPPETS[name])
    expected = {
        (number, *match.groups())
        for number, line in enumerate(source.splitlines(), 1)
        if (match := _EXPECTED.search(line))
    }
    checked = check_file("snippet.py", source, Project())
    found = {(finding.site.line, finding.severity, finding.kind) for finding in checked.findings}
    assert found == expected


def test_both_places_are_named() -> None:
    source = PRELUDE + "w = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n"
    (finding,) = check_file("snippet.py", source, Project()).findings
    assert finding.saved_by is not None
    assert (finding.saved_by.text, finding.site.text) == ("w.exp()", "y += 1")
    assert "exp keeps its result" in finding.message


def test_a_program_is_followed_into_other_files(tmp_path) -> None:
    (tmp_path / "helpers.py").write_text("def squash(t):\n    t.mul_(0.5)\n    return t\n")
    main = tmp_path / "main.py"
    main.write_text(
        "import torch\nfrom helpers import squash\nw = torch.ones(3, requires_grad=True)\n"
        "y = w.exp()\nz = squash(y)\nz.sum().backward()\n"
    )
    checked = check_file(str(main), main.read_text(), Project())
    assert [(f.site.file.rpartition("/")[2], f.site.line, f.severity) for f in checked.findings] == [
        ("helpers.py", 2, "error")
    ]
    assert checked.dependencies == (str(tmp_path / "helpers.py"),)


def test_a_syntax_error_is_said() -> None:
    checked = check_file("broken.py", "import torch\nx += (\n", Project())
    assert checked.error is not None
    assert checked.error.message.startswith("SyntaxError")


@pytest.mark.parametrize("head", ["with around():", "for _ in around():"])
def test_a_block_that_is_too_long_ends_quietly(head: str) -> None:
    source = PRELUDE + "from contextlib import contextmanager\n"
    source += f"{'@contextmanager' if head.startswith('with') else ''}\ndef around():\n    yield 1\n"
    source += f"def f(x):\n    {head}\n     {head}\n      x.add_(1)\n" + "      y = x\n" * 2000 + "    return x\n"
    assert check_file("long.py", source, Project()).error is None


def test_a_list_that_doubles_in_a_loop_stays_small() -> None:
    source = PRELUDE + "def f(x):\n    x.add_(1)\n    a = [x, x]\n" + "    a += a\n" * 60 + "    return a\n"
    assert check_file("doubling.py", source, Project()).error is None
