# kind: silent-other, tensor: out
"""The outputs are views of the state that each step writes: at the end all of them show the last one."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, layers=2, width=3):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(width, width) for _ in range(layers)])

    def step(self, x, hidden):
        for layer, cell in enumerate(self.cells):
            hidden[layer] = cell(x.clone(), hidden[layer].clone())  # overwrites
            x = hidden[layer]
        return x, hidden

    def forward(self, inputs):
        hidden, outputs = torch.zeros(len(self.cells), inputs.shape[1], inputs.shape[2]), []
        for x in inputs:
            out, hidden = self.step(x, hidden)
            outputs.append(out)
        return torch.stack(outputs)


torch.manual_seed(0)
net = Decoder()
net(torch.randn(4, 2, 3)).pow(2).sum().backward()
