"""An image classifier in the manner of ResNet-18: basic blocks, batch norm, ReLU in place, SGD with momentum."""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F
from torch import nn

BATCH = int(os.environ.get("BENCH_BATCH", "16"))


class BasicBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inside != outside:
            conv = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, width: int, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        layers = []
        inside = width
        for outside, stride in [(width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)]:
            layers += [BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1)]
            inside = outside
        self.layers = nn.ModuleList(layers)
        self.fc = nn.Linear(inside, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = self.bn(x)
        x = self.relu(x)
        for layer in self.layers:
            x = layer(x)
        x = x.mean(dim=(2, 3))
        return self.fc(x)


class Trainer:
    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        width, batch, side = (16, BATCH, 32) if device == "cpu" else (64, 128, 64)
        self.model = ResNet(width).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.images = torch.randn(batch, 3, side, side, generator=generator).to(device)
        self.targets = torch.randint(0, 10, (batch,), generator=generator).to(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        logits = self.model(self.images)
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
