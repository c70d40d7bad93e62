# kind: shape-dtype, tensor: self.running
import torch


class Meter:
    def __init__(self):
        self.running = torch.zeros(1)

    def update(self, values):
        self.running += values  # overwrites


Meter().update(torch.ones(3))
