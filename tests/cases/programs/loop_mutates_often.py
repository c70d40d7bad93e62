# kind: saved, tensor: acc
import torch

torch.manual_seed(0)
w = torch.randn(5, requires_grad=True)
acc = torch.zeros(5)
terms = []
for i in range(500):
    acc += i * 0.01  # overwrites
    terms.append((w * acc).sum())  # saves
torch.stack(terms).sum().backward()
