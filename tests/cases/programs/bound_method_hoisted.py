# kind: saved, tensor: acc
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
acc = torch.zeros(4)
add = acc.add_
loss = 0
for i in range(3):
    loss = loss + (acc * w).sum()  # saves
    add(torch.ones(4))  # overwrites
loss.backward()
