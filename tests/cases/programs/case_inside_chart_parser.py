# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(42)


class Chart:
    def __init__(self, batch, length, size):
        cells = length * (length + 1) // 2
        self.h = torch.zeros(batch, cells, size)
        self.s = torch.zeros(batch, cells, 1)

    def fill(self, lo, hi, h, s):
        self.h[:, lo:hi] = h
        self.s[:, lo:hi] = s


class InsideParser(nn.Module):
    def __init__(self, d_in, size):
        super().__init__()
        self.size = size
        self.leaf = nn.Linear(d_in, size)
        self.compose = nn.Sequential(nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, size))
        self.bilinear = nn.Parameter(torch.randn(size, size) * 0.2)

    @staticmethod
    def children(level, length, offset):
        lidx, ridx = [], []
        for pos in range(length - level):
            for k in range(level):
                lidx.append(offset[k] + pos)
                ridx.append(offset[level - 1 - k] + pos + k + 1)
        return lidx, ridx

    def forward(self, x):
        batch, length, _ = x.shape
        offset = [0]
        for level in range(length):
            offset.append(offset[-1] + length - level)
        chart = Chart(batch, length, self.size)
        chart.fill(0, length, F.normalize(torch.tanh(self.leaf(x)), dim=-1), 0.0)
        for level in range(1, length):
            lidx, ridx = self.children(level, length, offset)
            lh, rh = chart.h[:, lidx], chart.h[:, ridx]
            ls, rs = chart.s[:, lidx], chart.s[:, ridx]
            score = (lh @ self.bilinear * rh).sum(-1, keepdim=True) + ls + rs
            h = self.compose(torch.cat([lh, rh], dim=-1)).view(batch, -1, level, self.size)
            score = score.view(batch, -1, level, 1)
            p = score.softmax(dim=2)
            chart.fill(offset[level], offset[level + 1], F.normalize((p * h).sum(2), dim=-1), (p * score).sum(2))
        return chart.h[:, -1], chart.s[:, -1]


parser = InsideParser(6, 8)
tokens = torch.randn(3, 5, 6)
root, score = parser(tokens)
loss = F.mse_loss(root, F.normalize(torch.randn(3, 8), dim=-1)) - 0.1 * score.mean()
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in parser.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
