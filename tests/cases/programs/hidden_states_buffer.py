# kind: saved, tensor: self.history
import torch
from torch import nn


class Reservoir(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, n) * 0.1)
        self.register_buffer("history", torch.zeros(8, n))

    def forward(self, u):
        self.history = torch.zeros(8, u.size(-1))
        for t in range(1, 8):
            pre = self.history[t - 1] @ self.w  # saves
            self.history[t] = torch.tanh(pre + u[t])  # overwrites
        return self.history.sum()


torch.manual_seed(0)
Reservoir(6)(torch.randn(8, 6)).backward()
