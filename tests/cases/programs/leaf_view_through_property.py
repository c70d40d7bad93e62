# kind: leaf-view
import torch
from torch import nn


class Transform(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(4))

    @property
    def translation(self):
        return self.matrix[:3, 3]

    def move(self, offset):
        self.translation.add_(offset)  # overwrites


Transform().move(torch.ones(3))
