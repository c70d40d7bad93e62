# kind: leaf, tensor: parameter
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
for name, parameter in net.named_parameters():
    if name.endswith("weight"):
        parameter.normal_(0, 0.02)  # overwrites
