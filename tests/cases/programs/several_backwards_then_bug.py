# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
mask = torch.ones(4)
for epoch in range(4):
    out = net(torch.randn(2, 4))
    loss = (out * mask).sum()  # saves
    if epoch == 3:
        mask[epoch] = 0  # overwrites
    net.zero_grad()
    loss.backward()
