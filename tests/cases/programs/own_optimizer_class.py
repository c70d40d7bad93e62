# kind: stepped
import torch
from torch import nn


class PlainSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"])  # overwrites


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = PlainSGD(net.parameters(), 0.1)
one, two = net(torch.ones(2, 3)).sum(), net(torch.zeros(2, 3)).sum()  # saves
one.backward()
opt.step()
two.backward()
