"""Steps between a forward and its backward, and states that live from round to round."""

from .snippet import as_test

SNIPPETS = {
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
}

test_snippet = as_test(SNIPPETS)
