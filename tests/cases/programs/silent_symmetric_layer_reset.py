# kind: silent-other, tensor: self.stiffness.weight
import torch
from torch import nn
from torch.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)

    def right_inverse(self, weight):
        return weight.triu()


class Springs(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.stiffness = nn.Linear(size, size, bias=False)
        parametrize.register_parametrization(self.stiffness, "weight", Symmetric())
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            self.stiffness.weight.copy_(torch.eye(4))  # overwrites

    def forward(self, x):
        return self.stiffness(x)


torch.manual_seed(0)
net = Springs()
loss = (net(torch.ones(2, 4)) - 1).square().sum()
loss.backward()
print("RESULT", loss.item())
