# kind: saved, tensor: self.staging
import torch
from torch import nn


class Loader:
    def __init__(self, batches):
        self.batches = batches
        self.staging = torch.empty(2, 3)

    def __iter__(self):
        for batch in self.batches:
            self.staging.copy_(batch)  # overwrites
            yield self.staging


torch.manual_seed(0)
net, total = nn.Linear(3, 1), 0
for x in Loader([torch.randn(2, 3) for _ in range(3)]):
    total = total + net(x).mean()  # saves
total.backward()
