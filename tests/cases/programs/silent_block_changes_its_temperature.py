# kind: silent-other
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("temperature", torch.tensor(2.0))

    def forward(self, x):
        self.temperature.mul_(0.9)  # overwrites
        return torch.tanh(self.linear(x) / self.temperature)


torch.manual_seed(0)
block = Block()
for _ in range(2):
    checkpoint(block, torch.randn(3, 4), use_reentrant=False).sum().backward()
print("RESULT", block.linear.weight.grad.norm().item())
