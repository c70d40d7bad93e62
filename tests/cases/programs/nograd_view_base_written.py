# kind: nograd-view
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
memory = torch.zeros(8, 4)
with torch.no_grad():
    row = memory[3]
memory += w  # overwrites
row.sum().backward()
