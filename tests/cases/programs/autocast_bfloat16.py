# kind: saved, tensor: h
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 8)
head = nn.Linear(8, 1)
x = torch.randn(4, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = torch.tanh(net(x))  # saves
    h.add_(1)  # overwrites
    loss = head(h).float().mean()
loss.backward()
