# kind: silent-data
import copy

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
target = copy.deepcopy(critic)


def soft_update(source, destination, tau):
    for new, old in zip(source.parameters(), destination.parameters()):
        old.data.copy_(old.data * (1 - tau) + new.data * tau)  # overwrites


state = torch.randn(6, 3)
for _ in range(2):
    action = torch.tanh(actor(state))
    value = target(torch.cat([state, action], 1))  # saves
    for parameter in critic.parameters():
        parameter.data.mul_(1.5)
    soft_update(critic, target, 0.5)
    actor.zero_grad()
    (-value.mean()).backward()
print("RESULT", actor.weight.grad.norm().item())
