"""A tiny classifier: so little arithmetic in each step that the cost of calling PyTorch is what is measured."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Classifier(nn.Module):
    def __init__(self, features: int = 128, hidden: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc1(x)
        h = torch.relu(h)
        h = self.fc2(h)
        h = torch.relu(h)
        return self.out(h)


class Trainer:
    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.model = Classifier().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.inputs = torch.randn(64, 128, generator=generator).to(device)
        self.targets = torch.randint(0, 10, (64,), generator=generator).to(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        logits = self.model(self.inputs)
        loss = F.cross_entropy(logits, self.targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device: str) -> Trainer:
    return Trainer(device)


if __name__ == "__main__":
    import digest

    torch.set_num_threads(1)
    print(digest.of_training(build("cpu")))
