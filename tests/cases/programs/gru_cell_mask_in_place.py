# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(3, 4)
hidden = torch.zeros(2, 4)
for done in (torch.tensor([[1.0], [0.0]]), torch.tensor([[1.0], [1.0]])):
    hidden = cell(torch.randn(2, 3), hidden)
    hidden *= done
hidden.sum().backward()
