# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
x = torch.randn(8, 3)
kept = []
for column in range(2):
    net.zero_grad(set_to_none=False)  # overwrites
    net(x)[:, column].square().mean().backward()  # overwrites
    kept.append([p.grad for p in net.parameters()])
dot = sum((a * b).sum() for a, b in zip(*kept))
print("RESULT", dot.item())
