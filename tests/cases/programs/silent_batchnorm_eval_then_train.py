# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
net[1].running_var.fill_(3.0)
x = torch.randn(8, 4)
net.eval()
clean = net(x).mean()  # saves
net.train()
noisy = net(x + 5 * torch.randn_like(x)).mean()  # overwrites
(clean + 0.1 * noisy).backward()
print("RESULT", net[0].weight.grad.norm().item())
