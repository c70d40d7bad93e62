# kind: saved
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def branch(net, x):
    h = net(x).exp()  # saves
    h.div_(h.detach().sum())  # overwrites
    return h


torch.manual_seed(0)
nets = [nn.Linear(4, 4) for _ in range(2)]
x = torch.randn(2, 4)
with ThreadPoolExecutor(2) as pool:
    outs = list(pool.map(branch, nets, [x, x]))
torch.cat(outs).sum().backward()
