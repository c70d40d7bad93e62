# kind: stepped
import torch
from torch import nn
from torch.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


torch.manual_seed(0)
layer = nn.LazyLinear(4)
layer(torch.randn(1, 4))
parametrize.register_parametrization(layer, "weight", Symmetric())
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
second = nn.Linear(4, 4)
optimizer.add_param_group({"params": second.parameters()})
out = second(layer(torch.randn(2, 4)))  # saves
out.mean().backward(retain_graph=True)
optimizer.step()  # overwrites
out.std().backward()
