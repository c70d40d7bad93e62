# kind: leaf
import torch

w = torch.zeros(3, requires_grad=True)
for row in (torch.ones(3), torch.ones(3)):
    torch.Tensor.add_(w, row)  # overwrites
