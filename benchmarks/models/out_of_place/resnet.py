"""An image classifier in the manner of ResNet-18, nothing in place: basic blocks, batch norm, SGD with momentum."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def activation(name: str) -> nn.Module:
    if name == "leaky_relu":
        return nn.LeakyReLU(0.1)
    return nn.ReLU()


class BasicBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, act: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.act = activation(act)
        self.downsample: nn.Module | None = None
        if stride != 1 or inside != outside:
            conv = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.act(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out = out + identity
        return self.act(out)


class ResNet(nn.Module):
    def __init__(self, width: int, act: str, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), activation(act))
        layers = []
        inside = width
        for outside, stride in [(width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)]:
            layers += [BasicBlock(inside, outside, stride, act), BasicBlock(outside, outside, 1, act)]
            inside = outside
        self.layers = nn.ModuleList(layers)
        self.fc = nn.Linear(inside, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        x = x.mean(dim=(2, 3))
        return self.fc(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--activation", default="leaky_relu", choices=["relu", "leaky_relu"])
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = ResNet(options.width, options.activation).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, options.side, options.side).to(options.device)
    targets = torch.randint(0, 10, (options.batch,)).to(options.device)
    for step in range(options.steps):
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
