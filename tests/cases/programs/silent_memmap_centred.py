# kind: silent-alias
import os
import tempfile

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
path = os.path.join(tempfile.mkdtemp(), "data.bin")
data = np.memmap(path, dtype=np.float32, mode="w+", shape=(8, 3))
data[:] = np.random.default_rng(0).normal(size=(8, 3))
net = nn.Linear(3, 1)
x = torch.from_numpy(data[:4])
loss = net(x).square().mean()  # saves
data[:4] -= data[:4].mean(0)  # overwrites
loss.backward()
print("RESULT", loss.item(), net.weight.grad.norm().item())
