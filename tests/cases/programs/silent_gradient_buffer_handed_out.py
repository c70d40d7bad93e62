# kind: silent-alias
import numpy as np
import torch
from torch import nn


class Objective:
    def __init__(self, net, x):
        self.net, self.x = net, x
        self.buffer = torch.zeros(sum(p.numel() for p in net.parameters()), dtype=torch.float64)

    def __call__(self, weights):
        nn.utils.vector_to_parameters(torch.from_numpy(weights), self.net.parameters())
        loss = self.net(self.x).square().mean()
        grads = torch.autograd.grad(loss, list(self.net.parameters()))
        self.buffer.copy_(torch.cat([g.flatten() for g in grads]))  # overwrites
        return loss.item(), self.buffer.numpy()


def minimise(objective, x, step=0.1):
    _, g = objective(x)
    for _ in range(4):
        moved = x - step * g
        f, g_new = objective(moved)
        change = g_new - g
        if np.abs(change).sum() > 1e-9:
            step *= 1.1
        x, g = moved, g_new
    return f, step


torch.manual_seed(0)
net = nn.Linear(3, 1).double()
start = nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()
print("RESULT", *minimise(Objective(net, torch.randn(6, 3, dtype=torch.float64)), start))
