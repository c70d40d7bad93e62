"""Writes that torch refuses whatever was kept: to leaves, to results of a mode, by `out=`, across each other."""

from .snippet import as_test

SNIPPETS = {
    "leaves and their views": """
        p = nn.Parameter(torch.zeros(3))
        p[0] = 1.0  # error: leaf-view
        p.view(-1).add_(1)  # error: leaf-view
        p += 1  # error: leaf
        p.data.add_(1)
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
    "inference tensors": """
        with torch.inference_mode():
            t = torch.zeros(3)
        t += 1  # error: inference
    """,
    "out=": """
        w = torch.ones(3, requires_grad=True)
        torch.add(w, 1, out=torch.empty(3))  # error: out-arg
        torch.add(torch.ones(3), 1, out=torch.empty(3))
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
}

test_snippet = as_test(SNIPPETS)
