# kind: multi-view, tensor: head
import torch

torch.manual_seed(0)
x = torch.randn(4, 6, requires_grad=True) * 1
total = 0
for head in x.split(2, dim=1):
    head.squeeze_(0).sub_(head.mean())  # overwrites
    total = total + head.sum()
total.backward()
