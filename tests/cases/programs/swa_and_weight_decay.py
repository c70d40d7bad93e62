# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def decay(params, rate):
    with torch.no_grad():
        torch._foreach_mul_(list(params), 1 - rate)  # overwrites


loss = net(torch.ones(2, 3)).sum()  # saves
decay(net.parameters(), 0.1)
loss.backward()
