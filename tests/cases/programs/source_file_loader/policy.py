import torch
from torch import nn


def train(states):
    policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=0.01)
    values = policy(states)  # saves
    for advantage in (values.mean(), values.std()):
        optimizer.zero_grad()
        advantage.backward(retain_graph=True)
        optimizer.step()  # overwrites
