# kind: saved, tensor: act
import torch
from torch import nn

torch.manual_seed(0)
fc = nn.Linear(4, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    act = torch.sigmoid(fc(torch.randn(2, 4)))  # saves
    act *= 2  # overwrites
act.float().sum().backward()
