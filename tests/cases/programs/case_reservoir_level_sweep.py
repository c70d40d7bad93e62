# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(4)


class Sweep(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.coupling = nn.Parameter(torch.randn(n, n) * 0.2)
        self.inflow = nn.Parameter(torch.rand(n, 1))

    def forward(self, drive):
        level = self.coupling @ drive
        total = torch.zeros_like(level)
        for i in range(level.shape[0]):
            level[i] = level[i] + self.inflow[i]  # overwrites
            total = total + self.coupling @ level  # saves
        return total


model = Sweep(6)
drive = torch.randn(6, 1)
target = torch.randn(6, 1)
loss = (model(drive) - target).square().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {model.coupling.grad.abs().sum().item():.5f} {model.inflow.grad.abs().sum().item():.5f}")
