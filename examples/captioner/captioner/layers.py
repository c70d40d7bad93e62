"""The parts of the captioner."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
        )

    def forward(self, images):
        return self.body(images).flatten(2).transpose(1, 2)


class GatedAttention(nn.Module):
    """Attends to the picture, and lets a gate decide how much of it each word needs."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, words, regions):
        scores = self.query(words) @ self.key(regions).transpose(1, 2)
        context = torch.softmax(scores / words.shape[-1] ** 0.5, dim=-1) @ regions
        gate = torch.sigmoid(self.gate(words))
        return gate * context, gate
