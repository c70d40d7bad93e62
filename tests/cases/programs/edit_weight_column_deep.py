# kind: leaf-view, tensor: model.encoder.layers[0].dense.weight[:, position]
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 3)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])


model = nn.Module()
model.encoder = Encoder()
for position in (0, 2):
    model.encoder.layers[0].dense.weight[:, position] -= torch.ones(3) * 0.1  # overwrites
