"""A U-Net for segmentation, nothing in place: convolution, batch norm, leaky ReLU, skip connections, Adam."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def twice(inside: int, outside: int, act: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inside, outside):
        layers += [nn.Conv2d(channels, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)]
        if act == "leaky_relu":
            layers.append(nn.LeakyReLU(0.01))
        else:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, width: int, act: str, classes: int = 1) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList([twice(i, o, act) for i, o in zip([3, *widths[:-1]], widths, strict=True)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1])])
        self.merge = nn.ModuleList([twice(2 * w, w, act) for w in reversed(widths[:-1])])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for index, block in enumerate(self.down):
            x = block(x)
            if index + 1 < len(self.down):
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = torch.cat([up(x), skips.pop()], dim=1)
            x = merge(x)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--activation", default="leaky_relu", choices=["relu", "leaky_relu"])
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = UNet(options.width, options.activation).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.randn(options.batch, 3, options.side, options.side).to(options.device)
    targets = torch.randint(0, 2, (options.batch, 1, options.side, options.side)).float().to(options.device)
    for step in range(options.steps):
        optimizer.zero_grad()
        scores = model(images)
        loss = F.binary_cross_entropy_with_logits(scores, targets)
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
