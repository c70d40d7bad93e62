# kind: legal
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal, weight_norm


class Positive(nn.Module):
    def forward(self, weight):
        return weight.exp()

    def right_inverse(self, weight):
        return weight.log()


torch.manual_seed(0)
plain = nn.Linear(3, 3)
nn.init.eye_(plain.weight)  # before the norm is registered
first = weight_norm(plain)
nn.init.zeros_(first.bias)
with torch.no_grad():
    first.parametrizations.weight.original0.mul_(2)
second = orthogonal(nn.Linear(3, 3))
second.weight = torch.eye(3)
third = nn.Linear(3, 3)
parametrize.register_parametrization(third, "weight", Positive())
third.weight = torch.full((3, 3), 0.5)
with torch.no_grad():
    third.weight += 1.0  # read, added to, and assigned
scaled = third.weight.detach()
scaled.mul_(0.1)  # a tensor that is used under its name
fourth = weight_norm(nn.Linear(3, 3))
parametrize.remove_parametrizations(fourth, "weight")
nn.init.eye_(fourth.weight)  # a parameter again
loss = fourth(third(second(first(torch.ones(2, 3))))).square().mean() + scaled.sum()
loss.backward()
print("RESULT", loss.item())
