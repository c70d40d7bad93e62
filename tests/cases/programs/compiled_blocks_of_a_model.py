# kind: saved, tensor: x
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        h = self.norm(x)  # saves
        return self.down(torch.tanh(self.up(h)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(4) for _ in range(2))
        for block in self.blocks:
            block.compile(backend="eager")
        self.inp = nn.Linear(3, 4)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            y = block(x)
            x += y  # overwrites
        return x


net = Net()
for _ in range(2):
    net(torch.rand(5, 3)).square().sum().backward()
