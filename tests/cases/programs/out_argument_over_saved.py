# kind: saved, tensor: scratch
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
scratch = torch.empty(4)
total = 0
for i in range(3):
    torch.sin(torch.full((4,), float(i)), out=scratch)  # overwrites
    total = total + (w * scratch).sum()  # saves
total.backward()
