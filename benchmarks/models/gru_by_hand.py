"""A recurrent classifier with the equations of a GRU written out: many small operations of the program's own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, FEATURES, HIDDEN, CLASSES = 16, 32, 24, 48, 6


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of_input = nn.Linear(FEATURES, 3 * HIDDEN)
        self.of_hidden = nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        input_reset, input_update, input_new = self.of_input(x).chunk(3, dim=-1)
        hidden_reset, hidden_update, hidden_new = self.of_hidden(h).chunk(3, dim=-1)
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        new = torch.tanh(input_new + reset * hidden_new)
        return (1 - update) * new + update * h


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[0], HIDDEN)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


class Trainer:
    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.model = Classifier().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(BATCH, LENGTH, FEATURES, generator=generator).to(device)
        self.targets = torch.randint(0, CLASSES, (BATCH,), generator=generator).to(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device: str) -> Trainer:
    return Trainer(device)


if __name__ == "__main__":
    import digest

    torch.set_num_threads(1)
    print(digest.of_training(build("cpu")))
