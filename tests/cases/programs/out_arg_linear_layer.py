# kind: out-arg, tensor: scratch
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 3)
scratch = torch.empty(2, 3)
torch.mm(torch.randn(2, 3), layer.weight.t(), out=scratch)  # overwrites
