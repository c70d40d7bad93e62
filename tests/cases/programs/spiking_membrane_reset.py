# kind: saved
"""The membrane that a surrogate gradient keeps is reset where it has spiked."""

import torch
from torch import nn


class Surrogate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, membrane):
        ctx.save_for_backward(membrane)
        return (membrane > 0).double()

    @staticmethod
    def backward(ctx, grad):
        (membrane,) = ctx.saved_tensors
        return grad / (1 + 10 * membrane.abs()) ** 2


class LIF(nn.Module):
    def __init__(self, beta=0.9, threshold=0.3):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, current, membrane):
        membrane = self.beta * membrane + current - self.threshold
        spikes = Surrogate.apply(membrane)  # saves
        membrane[spikes.bool()] = 0.0  # overwrites
        return spikes, membrane


class SNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.lif = nn.Linear(3, 4), LIF()

    def forward(self, x):
        membrane, spikes = torch.zeros(len(x[0]), 4), []
        for t in range(len(x)):
            spike, membrane = self.lif(self.fc1(x[t]), membrane)
            spikes.append(spike)
        return torch.stack(spikes).sum(0) + membrane


torch.manual_seed(0)
net = SNN()
loss = net(torch.randn(4, 2, 3)).pow(2).sum()
loss.backward()
