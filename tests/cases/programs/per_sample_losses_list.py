# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
weights = torch.ones(3)
losses = []
for i in range(3):
    error = net(torch.randn(1, 3)).squeeze()
    losses.append(weights[i] * error)  # saves
    weights[i] /= 2  # overwrites
sum(losses).backward()
