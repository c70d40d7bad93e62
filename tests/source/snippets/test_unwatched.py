"""Writes to what torch does not watch: `.data`, and the inputs of a Function."""

from .snippet import as_test

SNIPPETS = {
    ".data hides the write": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y.data.add_(1)  # error: silent-data
        y.sum().backward()
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
    "ends that are kept at a value through .data": """
        class Ends:
            def __init__(self, left, far):
                self.left, self.far = left, far

            def __call__(self, u):
                u.data[:, 0] = self.left  # warning: silent-data
                u.data[:, -1] = -1.5  # warning: silent-data
                u.data[:, 1] = self.far
                u.data[:, 2] = float("-inf")
                return u

        lin = nn.Linear(5, 5)
        u = Ends(1.0, -1e9)(lin(torch.ones(2, 5)))
        v = lin(torch.ones(2, 5))
        v.data[v.data > 0] = 1  # a threshold, with gradients that go past it
        (u.softmax(1) + v).sum().backward()
        after = lin(torch.ones(2, 5))
        loss = after.sum()
        after.data[:, 0] = 1.0
        loss.backward()
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
}

test_snippet = as_test(SNIPPETS)
