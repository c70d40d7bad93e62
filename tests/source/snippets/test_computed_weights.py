"""Weights that are computed from others: what is written into them is lost."""

from .snippet import as_test

SNIPPETS = {
    "a weight under weight norm": """
        a = nn.utils.weight_norm(nn.Conv1d(3, 3, 1))
        a.weight.data.normal_(0, 0.01)  # error: silent-other
        nn.init.zeros_(a.weight)  # error: silent-other
        nn.init.zeros_(a.bias)
        a.weight.data = torch.zeros(3, 3, 1)  # error: silent-other
        a.weight.data *= 2  # error: silent-other
        with torch.no_grad():
            a.weight[0] = 1  # error: silent-other
            a.weight[0] += 1  # error: silent-other
            a.weight.mul_(2)  # error: silent-other
            a.weight += 1
            w = a.weight
            w.mul_(2)
        print(w.sum())
        nn.utils.remove_weight_norm(a)
        nn.init.zeros_(a.weight)
    """,
    "other norms": """
        from torch.nn.utils import parametrizations
        from torch.nn.init import eye_

        b = nn.utils.spectral_norm(nn.Linear(3, 3))
        nn.init.zeros_(b.weight)  # the parameter's own memory, up to the first forward
        c = parametrizations.orthogonal(nn.Linear(3, 3))
        c.weight.data.copy_(torch.eye(3))  # error: silent-other
        d = parametrizations.weight_norm(nn.Linear(3, 3), name="bias")
        eye_(d.weight)
        nn.init.zeros_(d.bias)  # error: silent-other
    """,
    "a parametrization, and modules that are initialised all alike": """
        from torch.nn.utils import parametrize

        class Symmetric(nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).transpose(-1, -2)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
                nn.init.eye_(self.layer.weight)
                parametrize.register_parametrization(self.layer, "weight", Symmetric())
                self.ups = nn.ModuleList([nn.utils.weight_norm(nn.Conv1d(3, 3, 1)) for _ in range(3)])
                self.ups.apply(started)
                self.plain = nn.Linear(3, 3)
                self.plain.apply(started_plain)
                self.reset()

            def reset(self):
                nn.init.eye_(self.layer.weight)  # error: silent-other

            def forward(self, x):
                return self.layer(x)

        def started(m):
            if m.__class__.__name__.find("Conv") != -1:
                m.weight.data.normal_(0, 0.01)  # error: silent-other

        def started_plain(m):
            m.weight.data.normal_(0, 0.01)

        Net()(torch.ones(1, 3)).sum().backward()
    """,
    "on one of several ways": """
        class Block(nn.Module):
            def __init__(self, norm="none", orthogonal=False):
                super().__init__()
                self.conv = nn.Conv2d(3, 3, 3)
                if norm == "weight":
                    self.conv = nn.utils.weight_norm(self.conv)
                else:
                    nn.init.kaiming_normal_(self.conv.weight)
                self.out = nn.Linear(3, 3)
                if orthogonal:
                    nn.utils.parametrizations.orthogonal(self.out)
                if not orthogonal:
                    nn.init.zeros_(self.out.weight)
                nn.init.zeros_(self.out.weight)  # warning: silent-other
    """,
    "before and after it is registered": """
        class Before(nn.Module):
            def __init__(self):
                super().__init__()
                self.mlp = nn.Linear(3, 3)
                self.reset()
                self.apply(self.started)
                self.last = nn.utils.weight_norm(nn.Linear(3, 3, bias=False))
                nn.utils.weight_norm(self.mlp)

            def reset(self):
                nn.init.eye_(self.mlp.weight)

            def started(self, m):
                if isinstance(m, nn.Linear):
                    nn.init.trunc_normal_(m.weight, std=0.02)

        class After(nn.Module):
            def __init__(self):
                super().__init__()
                self.mlp = nn.utils.weight_norm(nn.Linear(3, 3))
                self.reset()

            def reset(self):
                nn.init.eye_(self.mlp.weight)  # error: silent-other

            def later(self):
                self.mlp.weight.data.zero_()  # error: silent-other
    """,
}

test_snippet = as_test(SNIPPETS)
