# kind: saved
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
fast = {k: v * 1.0 for k, v in net.named_parameters()}
loss = functional_call(net, fast, (torch.ones(2, 3),)).sum()  # saves
with torch.no_grad():
    for value in fast.values():
        value.sub_(0.1)  # overwrites
loss.backward()
