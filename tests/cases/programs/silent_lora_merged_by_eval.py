# kind: silent-data
"""`eval()` runs the layer's own `train`, which merges its adapter into the weight that a pending backward needs."""

import torch
from torch import nn


class LoRALinear(nn.Linear):
    def __init__(self, inc, outc, rank=2):
        super().__init__(inc, outc)
        self.A, self.B = nn.Parameter(torch.randn(rank, inc)), nn.Parameter(torch.randn(outc, rank))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode and self.merged:
            self.weight.data -= self.B.detach() @ self.A.detach()
            self.merged = False
        if not mode and not self.merged:
            self.weight.data += self.B.detach() @ self.A.detach()  # overwrites
            self.merged = True
        return self

    def forward(self, x):
        base = nn.functional.linear(x, self.weight, self.bias)  # saves
        return base if self.merged else base + x @ self.A.T @ self.B.T


torch.manual_seed(0)
first, layer = nn.Linear(3, 3), LoRALinear(3, 2)
x = torch.randn(4, 3)
loss = layer(torch.tanh(first(x))).pow(2).mean()
layer.eval()
with torch.no_grad():
    monitor = layer(torch.tanh(first(x))).mean()
loss.backward()
