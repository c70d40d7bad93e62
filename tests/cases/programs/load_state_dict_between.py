# kind: stepped
import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
best = copy.deepcopy(net.state_dict())
loss = net(torch.randn(4, 3)).mean()  # saves
net.load_state_dict(best)  # overwrites
loss.backward()
