# kind: expanded, tensor: net.memory
import torch
from torch import nn


class PerHead(nn.Module):
    def __init__(self, heads, dim):
        super().__init__()
        base = torch.randn(dim, dim) / dim
        self.memory = nn.Parameter(base.unsqueeze(0).expand(heads, dim, dim))

    def forward(self, x):
        return torch.einsum("bhd,hde->bhe", x, self.memory)


torch.manual_seed(0)
net = PerHead(4, 8)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(2):
    loss = net(torch.randn(3, 4, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # overwrites
