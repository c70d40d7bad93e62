# kind: legal
from collections import deque

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
x, net = torch.ones(3), nn.Linear(3, 3)
frames, last, parts, sums = [], deque(maxlen=1), [], []
table = np.zeros((6, 3), dtype=np.float32)
for step in range(6):
    x += 0.1
    frames.append(x.numpy().copy())
    last.append(x.numpy())
    table[step] = x.numpy()
    parts.append(torch.from_numpy(table[step]))
    sums.append((x * 2).numpy())
data = torch.from_numpy(np.stack(frames))
loss = (net(data[:-1]) - torch.stack(parts)[1:]).square().mean() + torch.from_numpy(np.stack(sums)).mean()
loss.backward()
print("RESULT", loss.item(), len(last))
