# kind: saved, tensor: returns
import torch
from torch import nn

torch.manual_seed(0)
value = nn.Linear(3, 1)
states = torch.randn(5, 3)
values = value(states).squeeze(-1)
returns = torch.zeros(6)
gamma = torch.tensor(0.9, requires_grad=True)
for t in reversed(range(5)):
    returns[t] = values[t] + gamma * returns[t + 1]  # saves, overwrites
returns.sum().backward()
