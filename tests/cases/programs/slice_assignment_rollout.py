# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
f = nn.Linear(3, 3)


def rollout(x0, steps):
    traj = torch.zeros(steps + 1, *x0.shape)
    traj[0] = x0
    for t in range(steps):
        traj[t + 1] = traj[t] + 0.1 * torch.tanh(f(traj[t]))  # saves, overwrites
    return traj


rollout(torch.randn(4, 3), 5).pow(2).mean().backward()
