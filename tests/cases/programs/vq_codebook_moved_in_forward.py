# kind: saved, tensor: self.codes
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("codes", torch.randn(size, width))
        self.register_buffer("usage", torch.ones(size))

    def forward(self, x):
        distance = torch.cdist(x, self.codes)  # saves
        nearest = distance.argmin(-1)
        if self.training:
            self._move(x.detach(), nearest)
        return self.codes[nearest], distance.amin(-1).mean()

    @torch.no_grad()
    def _move(self, x, nearest):
        self.usage.index_add_(0, nearest, torch.ones(len(x)))
        for code in nearest.unique():
            self.codes[code] = x[nearest == code].mean(0)  # overwrites


torch.manual_seed(0)
encoder, book = nn.Linear(3, 2), Codebook(4, 2)
_, commitment = book(encoder(torch.randn(6, 3)))
commitment.backward()
