# kind: saved
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.freqs = nn.Parameter(torch.linspace(0.1, 1.0, width // 2))

    def forward(self, q):
        angle = torch.arange(q.shape[1])[:, None] * self.freqs
        cos, sin = angle.cos(), angle.sin()
        even, odd = q[..., 0::2], q[..., 1::2]
        q[..., 0::2], q[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos  # saves, overwrites
        return q


torch.manual_seed(0)
project, rotary = nn.Linear(4, 4), Rotary(4)
optimizer = torch.optim.SGD([*project.parameters(), *rotary.parameters()], lr=0.1)
x = torch.randn(2, 5, 4)
for _ in range(2):
    q = rotary(project(x))
    loss = (q @ q.transpose(1, 2)).softmax(-1).diagonal(dim1=1, dim2=2).log().mean().neg()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
