"""The ways through a program: branches, rounds of a loop, and calls."""

from .snippet import as_test

SNIPPETS = {
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
    "any and all of what is known": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        if any([isinstance(size, (tuple, list)) for size in [1, 2]]) or not all(flag for flag in (True, 1)):
            y += 1
        if any([None, 3]) and all([]):
            y += 2  # error: saved
        y.sum().backward()
    """,
    "a loop writes what the round before has kept": """
        cell = nn.Linear(3, 3)
        h = torch.zeros(5, 3)
        for t in range(1, 5):
            h[t] = cell(h[t - 1])  # error: saved
        h.sum().backward()
    """,
    "each round has an item of its own": """
        def prepare(masks):
            prepared = []
            for mask in masks:
                mask[0] = 0
                prepared.append(mask)
            return torch.stack(prepared)
    """,
    "a callee writes what the caller has kept": """
        def scale(t):
            t.mul_(2)  # error: saved
            return t

        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        scale(y).sum().backward()
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
}

test_snippet = as_test(SNIPPETS)
