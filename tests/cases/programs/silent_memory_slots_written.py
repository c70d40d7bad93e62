# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)


class Memory(nn.Module):
    def __init__(self, slots=6, width=4):
        super().__init__()
        self.key, self.value = nn.Linear(3, width), nn.Linear(3, width)
        self.memory = torch.randn(slots, width)

    def forward(self, x):
        weights = torch.softmax(self.key(x) @ self.memory.t(), -1)  # saves
        read = weights @ self.memory  # saves
        self.memory.data.mul_(0.9)  # overwrites
        self.memory.data.add_(0.1 * weights.t() @ self.value(x))  # overwrites
        return read


net = Memory()
loss = 0
for _ in range(2):
    loss = loss + net(torch.randn(2, 3)).square().sum()
loss.backward()
print("RESULT", loss.item(), net.key.weight.grad.norm().item())
