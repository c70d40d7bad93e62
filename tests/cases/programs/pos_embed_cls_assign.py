# kind: leaf-view
import torch
import torch.nn as nn

torch.manual_seed(0)


class Patch(nn.Module):
    def __init__(self, d=4, n=5):
        super().__init__()
        self.proj = nn.Linear(6, d)
        self.pos = nn.Parameter(torch.zeros(1, n, d))
        self.cls = nn.Parameter(torch.zeros(1, 1, d))

    def forward(self, x):
        x = self.proj(x)
        x += self.pos[:, 1:]
        cls = self.cls.expand(x.shape[0], -1, -1)
        cls += self.pos[:, :1]  # overwrites
        return torch.cat([cls, x], 1)


net = Patch()
loss = net(torch.randn(2, 4, 6)).pow(2).mean()
loss.backward()
