# kind: saved
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook


def squash(module, args, output):
    if isinstance(module, nn.Sigmoid):
        output.sub_(0.5)  # overwrites


handle = register_module_forward_hook(squash)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1))
loss = net(torch.randn(2, 4)).sum()  # saves
loss.backward()
