"""Lists, dicts, records and numbers."""

from .snippet import as_test

SNIPPETS = {
    "numbers, lists and arrays are no tensors": """
        i, names, a = 0, [], np.zeros(3)
        for k in range(3):
            i += 1
            names += ["x"]
            a[k] = 1
            a += 1
    """,
    "list and stack": """
        cell = nn.Linear(3, 3)
        rows = [torch.zeros(3)]
        for t in range(1, 5):
            rows.append(cell(rows[-1]))
        torch.stack(rows).sum().backward()
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
}

test_snippet = as_test(SNIPPETS)
