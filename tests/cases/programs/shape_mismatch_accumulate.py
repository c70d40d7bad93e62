# kind: shape-dtype, tensor: self.total
import torch


class Meter:
    def __init__(self):
        self.total = torch.zeros(3)

    def update(self, batch):
        self.total += batch  # overwrites


Meter().update(torch.ones(2, 3))
