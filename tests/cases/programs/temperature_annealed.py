# kind: saved, tensor: self.temperature
import torch
from torch import nn


class Gumbel(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = nn.Linear(3, 4)
        self.register_buffer("temperature", torch.tensor(1.0))

    def forward(self, x):
        y = self.logits(x) / self.temperature  # saves
        return y.softmax(-1)

    def anneal(self):
        self.temperature.mul_(0.9).clamp_(min=0.1)  # overwrites


torch.manual_seed(0)
model = Gumbel()
for _ in range(2):
    out = model(torch.randn(2, 3))
    model.anneal()
    out.pow(2).sum().backward()
