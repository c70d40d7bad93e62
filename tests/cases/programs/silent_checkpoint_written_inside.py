# kind: silent-other, tensor: h
"""Inside a checkpointed block nobody looks whether what is saved is overwritten: no error, and a wrong gradient."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rise, self.fall = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        h = torch.tanh(self.rise(x))  # saves
        h -= h.mean(-1, keepdim=True)  # overwrites
        return self.fall(h)


torch.manual_seed(0)
net = nn.Sequential(Block(4), Block(4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    x = torch.randn(3, 4)
    for block in net:
        x = checkpoint(block, x, use_reentrant=False)
    x.square().mean().backward()
    optimizer.step()
