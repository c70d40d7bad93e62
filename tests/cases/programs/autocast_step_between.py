# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))
x = torch.randn(4, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    mid = net[0](x)
    out = net[2](net[1](mid))  # saves
    mid *= 0.5  # overwrites
    loss = out.float().mean() + mid.float().mean()
loss.backward()
