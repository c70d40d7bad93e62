# kind: leaf
import torch
import torch.nn.functional as F
from torch import nn


class Fusion(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-0.3, 1.0, inputs))
        self.w_relu = nn.ReLU(inplace=True)
        self.conv = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width), nn.SiLU(inplace=True))

    def forward(self, *features):
        w = self.w_relu(self.w)  # overwrites
        w = w / (w.sum() + 1e-4)
        return self.conv(sum(w[i] * f for i, f in enumerate(features)))


class Neck(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.top_down, self.bottom_up = Fusion(2, width), Fusion(3, width)

    def forward(self, small, large):
        down = self.top_down(large, F.interpolate(small, scale_factor=2))
        return down, self.bottom_up(small, F.max_pool2d(down, 2), F.avg_pool2d(large, 2))


torch.manual_seed(0)
neck = Neck()
optimizer = torch.optim.SGD(neck.parameters(), lr=0.05)
small, large = torch.randn(2, 4, 4, 4), torch.randn(2, 4, 8, 8)
for _ in range(3):
    a, b = neck(small, large)
    loss = a.square().mean() + b.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
