# kind: legal
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
ring = np.zeros((6, 4), dtype=np.float32)
history, counts = np.zeros(3), np.zeros(2)
for step in range(3):
    ring[step] = rng.standard_normal(4)
    batch = torch.from_numpy(ring[: step + 1])
    out = net(batch)
    copied = out.detach().numpy().copy()
    copied *= 255
    copied.sort()
    loss = out.square().mean()
    ring[step + 1] = 7.0
    opt.zero_grad()
    loss.backward()
    opt.step()
    shown = out.detach().numpy()
    shown -= shown.mean()
    history[step] = loss.item()
    counts += copied.mean(0)
    np.clip(history, 0, 1, out=history)
    np.add.at(counts, [0, 0], 1.0)
    rng.shuffle(history)
mask = torch.as_tensor(np.array([True, False]))
print(torch.tensor(history).sum() > -1, mask.sum())
