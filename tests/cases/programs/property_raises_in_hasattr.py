# kind: saved, tensor: gate
import torch
from torch import nn


class Calibrated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.ready = False

    @property
    def scale(self):
        largest = self.fc.weight.abs().max()
        if not self.ready:
            raise AttributeError("not calibrated yet")
        return largest


torch.manual_seed(0)
net = Calibrated()
gate = torch.sigmoid(net.fc(torch.ones(2, 3)) * (net.scale if hasattr(net, "scale") else 1.0))  # saves
gate.sub_(0.5)  # overwrites
gate.sum().backward()
