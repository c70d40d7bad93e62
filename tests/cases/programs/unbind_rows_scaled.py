# kind: multi-view
import torch

weights = torch.ones(3, 5, requires_grad=True)
rows = (weights * 1.0).unbind(0)
for i, row in enumerate(rows):
    row.mul_(i)  # overwrites
torch.stack(rows).sum().backward()
