# kind: leaf-view
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(14)


class Detect(nn.Module):
    def __init__(self, nc, anchors, ch):
        super().__init__()
        self.nc, self.no = nc, nc + 5
        self.na = len(anchors[0]) // 2
        self.stride = None
        self.m = nn.ModuleList(nn.Conv2d(c, self.no * self.na, 1) for c in ch)

    def forward(self, xs):
        out = []
        for conv, x in zip(self.m, xs):
            bs, _, ny, nx = x.shape
            out.append(conv(x).view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2))
        return out


class Model(nn.Module):
    def __init__(self, nc=4):
        super().__init__()
        self.p3 = nn.Sequential(nn.Conv2d(3, 8, 3, 8, 1), nn.SiLU())
        self.p4 = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.SiLU())
        self.head = Detect(nc, [[10, 13, 16, 30], [30, 61, 62, 45]], (8, 12))
        s = 64
        self.head.stride = [s / o.shape[-3] for o in self.forward(torch.zeros(1, 3, s, s))]
        self._initialize_biases()

    def _initialize_biases(self, cf=None):
        m = self.head
        for mi, s in zip(m.m, m.stride):
            b = mi.bias.view(m.na, -1)
            b[:, 4] += math.log(8 / (640 / s) ** 2)  # overwrites
            b[:, 5:] += math.log(0.6 / (m.nc - 0.99)) if cf is None else torch.log(cf / cf.sum())
            mi.bias = nn.Parameter(b.view(-1), requires_grad=True)

    def forward(self, x):
        p3 = self.p3(x)
        return self.head([p3, self.p4(p3)])


model = Model()
outs = model(torch.rand(2, 3, 64, 64))
loss = sum(F.binary_cross_entropy_with_logits(o[..., 4:], torch.zeros_like(o[..., 4:])) for o in outs)
loss = loss + sum(o[..., :4].pow(2).mean() for o in outs)
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
