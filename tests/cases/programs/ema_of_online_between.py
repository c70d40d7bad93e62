# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
target = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


@torch.no_grad()
def soft_update(src, dst, tau):
    for s, d in zip(src.parameters(), dst.parameters()):
        d.mul_(1 - tau).add_(tau * s)  # overwrites


x = torch.randn(6, 3)
loss = (online(x) - target(x + 1)).pow(2).mean()  # saves
soft_update(online, target, 0.05)
loss.backward()
