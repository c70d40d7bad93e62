"""A recurrent tagger: an LSTM cell called in a loop of 48 steps, clipped gradients, Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, FEATURES, HIDDEN, TAGS = 16, 48, 32, 64, 8


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(FEATURES, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, TAGS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[0], HIDDEN)
        c = x.new_zeros(x.shape[0], HIDDEN)
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            out = self.norm(h)
            out = out * torch.sigmoid(out)
            outputs.append(out)
        hidden = torch.stack(outputs, dim=1)
        return self.head(hidden)


class Trainer:
    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.model = Tagger().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(BATCH, LENGTH, FEATURES, generator=generator).to(device)
        self.targets = torch.randint(0, TAGS, (BATCH, LENGTH), generator=generator).to(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        scores = self.model(self.inputs)
        loss = F.cross_entropy(scores.flatten(0, 1), self.targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def build(device: str) -> Trainer:
    return Trainer(device)


if __name__ == "__main__":
    import digest

    torch.set_num_threads(1)
    print(digest.of_training(build("cpu")))
