"""Modules: their layers, their options, and what they hold."""

from .snippet import as_test

SNIPPETS = {
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
    "flags that are computed for each layer": """
        class Step(nn.Module):
            def __init__(self, first):
                super().__init__()
                self.first, self.fc = first, nn.Linear(2, 2)

            def forward(self, z):
                kept = z[:, :2] if self.first else z[:, 2:]
                scale = self.fc(kept).exp()
                if self.first:
                    z[:, 2:] = z[:, 2:] * scale  # error: saved
                return z

        steps = nn.ModuleList(Step(bool(i % 2)) for i in range(4))
        z = nn.Linear(4, 4)(torch.randn(3, 4))
        for step in steps:
            z = step(z)
        z.sum().backward()
    """,
    "a flag that no layer has": """
        class Step(nn.Module):
            def __init__(self, first):
                super().__init__()
                self.first, self.fc = first, nn.Linear(2, 2)

            def forward(self, z):
                scale = self.fc(z[:, :2]).exp()
                if self.first:
                    z[:, 2:] = z[:, 2:] * scale
                return z

        steps = nn.ModuleList(Step(bool(abs(i) // 4) or int(0.5)) for i in range(4))
        z = nn.Linear(4, 4)(torch.randn(3, 4))
        for step in steps:
            z = step(z)
        z.sum().backward()
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
    "a layer that gives a tuple gives one for each of several values": """
        attention, lin = nn.MultiheadAttention(4, 2), nn.Linear(4, 4)

        def encode(x, flag):
            x = lin(x) if flag else lin(x) * 2
            x, weights = attention(x, x, x)
            x += 1
            return x
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
    "the last module of a container that a branch has filled": """
        class Block(nn.Module):
            def __init__(self, dim, first=True, act_layer=nn.ReLU):
                super().__init__()
                self.stack = nn.Sequential()
                for i in range(3):
                    if first:
                        self.stack.add_module(f"act{i}", act_layer(inplace=i > 0))
                    self.stack.add_module(f"fc{i}", nn.Linear(dim, dim))

            def forward(self, x):
                tap, last = x * 1, len(self.stack) - 1
                for i, module in enumerate(self.stack):
                    if i < last:
                        tap = module(tap)
                    else:
                        x = module(tap) + x
                return x, tap
    """,
    "a write to what such a module keeps": """
        class Block(nn.Module):
            def __init__(self, dim, first=True, act_layer=nn.ReLU):
                super().__init__()
                self.stack = nn.Sequential()
                for i in range(3):
                    if first:
                        self.stack.add_module(f"act{i}", act_layer(inplace=i > 0))
                    self.stack.add_module(f"fc{i}", nn.Linear(dim, dim))

            def forward(self, x):
                tap, last = x * 1, len(self.stack) - 1
                for i, module in enumerate(self.stack):
                    if i < last:
                        tap = module(tap)
                        tap *= 2  # warning: saved
                    else:
                        x = module(tap) + x
                return x, tap
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
        square.weight.clamp_(max=2.0)  # error: silent-other
        optimizer = torch.optim.SGD([*square.parameters(), *plain.parameters()], lr=0.1)
        x = torch.randn(4, 3)
        loss, other = square(x).sum(), plain(x).sum()
        loss.backward(retain_graph=True)
        optimizer.step()  # error: stepped
        (loss + other + gated(x).sum()).backward()
    """,
    "a module called with parameters that nobody knows": """
        def predict(weights, x: torch.Tensor):
            layer = nn.Linear(3, 3)
            y = torch.func.functional_call(layer, {"weight": weights["w"]}, (x,)).exp()
            y += 1  # error: saved
            return y
    """,
}

test_snippet = as_test(SNIPPETS)
