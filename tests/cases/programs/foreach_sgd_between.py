# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True, momentum=0.9)
losses = [net(torch.randn(4, 3)).pow(2).mean() for _ in range(2)]  # saves
for loss in losses:
    opt.zero_grad()
    loss.backward()
    opt.step()  # overwrites
