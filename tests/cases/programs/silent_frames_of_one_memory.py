# kind: silent-alias
import numpy as np
import torch
from torch import nn


class Oscillator:
    def __init__(self):
        self.x, self.v = torch.ones(3), torch.zeros(3)

    def advance(self, steps):
        for _ in range(steps):
            self.v -= 0.1 * self.x
            self.x += 0.1 * self.v  # overwrites


def as_array(tensor):
    return tensor.detach().cpu().numpy()


def simulate(system):
    frames = []
    for _ in range(4):
        system.advance(3)
        frames.append(as_array(system.x))
    return torch.from_numpy(np.stack(frames))


torch.manual_seed(0)
data = simulate(Oscillator())
net = nn.Linear(3, 3)
loss = (net(data[:-1]) - data[1:]).square().mean()
loss.backward()
print("RESULT", loss.item())
