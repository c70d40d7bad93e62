# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(2, 4)
        self.gate = nn.Parameter(torch.randn(4))
        self.register_buffer("state", torch.zeros(3, 4))

    def forward(self, x):
        new = torch.tanh(self.cell(x) + self.gate * self.state)  # saves
        self.state.data.copy_(new.detach())  # overwrites
        return new


net = Memory()
loss = 0
for _ in range(3):
    loss = loss + net(torch.randn(3, 2)).square().mean()
loss.backward()
print("RESULT", loss.item(), net.gate.grad.norm().item())
