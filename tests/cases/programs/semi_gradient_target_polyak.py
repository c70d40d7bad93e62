# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
online, target = nn.Linear(4, 2), nn.Linear(4, 2)
states = torch.randn(5, 4, requires_grad=True)
q = online(states)  # saves
goal = target(states)  # saves
with torch.no_grad():
    for p, t in zip(online.parameters(), target.parameters()):
        t.lerp_(p, 0.1)  # overwrites
        p.mul_(0.999)  # overwrites
(q - goal).square().mean().backward()
