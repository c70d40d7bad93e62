# kind: legal
"""One storage, one file, one buffer: parts that do not overlap, or that are used before they are written again."""
import os
import tempfile

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
pool, w = torch.zeros(64), torch.randn(8, requires_grad=True)


def take(offset, size):
    return torch.empty(0).set_(pool.untyped_storage(), offset, (size,))


a, b = take(0, 8), take(8, 8)
torch.randn(8, out=a)
loss = (a * w).sum()
torch.randn(8, out=b)
loss = loss + (b * w).square().sum()
loss.backward()
a.zero_()

data = np.memmap(os.path.join(tempfile.mkdtemp(), "data.bin"), dtype=np.float32, mode="w+", shape=(8, 3))
data[:] = np.random.default_rng(0).normal(size=(8, 3))
net = nn.Linear(3, 1)
for half in range(2):
    rows = data[4 * half : 4 * half + 4]
    rows -= rows.mean(0)
    net(torch.from_numpy(rows)).square().mean().backward()
    data[:] += 1

buffer = np.zeros((4, 3), dtype=np.float32)
for t in range(4):
    np.stack([np.full(3, t, dtype=np.float32)] * 4, out=buffer)
    net(torch.from_numpy(buffer)).square().mean().backward()
print("RESULT", w.grad.norm().item(), net.weight.grad.norm().item())
