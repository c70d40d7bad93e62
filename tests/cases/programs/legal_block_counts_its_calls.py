# kind: legal
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        if self.training:
            self.seen.mul_(0.9).add_(x.detach().mean(dim=0), alpha=0.1)
        else:
            x = x - self.seen
        return torch.tanh(self.linear(x))


torch.manual_seed(0)
block = Block()
for _ in range(2):
    checkpoint(block, torch.randn(3, 4), use_reentrant=False).sum().backward()
print("RESULT", block.linear.weight.grad.norm().item())
