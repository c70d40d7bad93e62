# kind: legal
import numpy as np
import torch
from torch import nn


class Objective:
    def __init__(self, net, x):
        self.net, self.x = net, x
        self.buffer, self.shown = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)

    def __call__(self, weights):
        nn.utils.vector_to_parameters(torch.from_numpy(weights), self.net.parameters())
        loss = self.net(self.x).square().mean()
        grads = torch.autograd.grad(loss, list(self.net.parameters()))
        self.buffer.copy_(torch.cat([g.flatten() for g in grads]))
        self.shown.copy_(self.buffer).abs_()
        return loss.item(), self.buffer.numpy().copy(), self.shown.numpy()


def minimise(objective, x, step=0.1):
    _, g, shown = objective(x)
    largest = shown.max()
    for _ in range(4):
        moved = x - step * g
        f, g_new, shown = objective(moved)
        largest = max(largest, shown.max())
        if np.abs(g_new - g).sum() > 1e-9:
            step *= 1.1
        x, g = moved, g_new
    return f, step, largest


torch.manual_seed(0)
net = nn.Linear(3, 1).double()
start = nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()
print("RESULT", *minimise(Objective(net, torch.randn(6, 3, dtype=torch.float64)), start))
