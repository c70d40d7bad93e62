# kind: silent-data, tensor: gate
import torch
from torch import nn

torch.manual_seed(0)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5)
        self.gate = nn.Linear(5, 5)

    def forward(self, x, mask):
        gate = torch.sigmoid(self.gate(x))  # saves
        out = gate * 2 + x
        gate.data[mask] = 0.0  # overwrites
        return out


net = Gated()
x = torch.randn(4, 5)
net(x, x > 0).sum().backward()
print("RESULT", net.gate.weight.grad.norm().item())
