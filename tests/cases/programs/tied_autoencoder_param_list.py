# kind: leaf
import torch
import torch.nn as nn

torch.manual_seed(0)


class AE(nn.Module):
    def __init__(self, dims=(6, 4, 2)):
        super().__init__()
        self.ws = nn.ParameterList([nn.Parameter(torch.randn(o, i) * 0.1) for i, o in zip(dims, dims[1:])])

    def forward(self, x):
        for w in self.ws:
            x = torch.tanh(x @ w.t())
        for w in reversed(self.ws):
            x = x @ w
        return x


net = AE()
x = torch.randn(5, 6)
loss = (net(x) - x).pow(2).mean()
for w in net.ws:
    w.div_(w.norm())  # overwrites
loss.backward()
