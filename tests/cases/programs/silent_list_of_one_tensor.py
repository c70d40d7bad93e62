# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.Linear(3, 3)
inputs = torch.randn(4, 3)
sums = [torch.zeros(3)] * 4
for step in range(4):
    sums[step] += cell(inputs[step])  # overwrites
loss = torch.stack(sums).square().sum()
loss.backward()
print("RESULT", loss.item(), cell.weight.grad.norm().item())
