# kind: saved, since torch 2.13
"""DistributedDataParallel copies rank 0's buffers in place before each forward: a second one spoils the first."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("gain", torch.ones(3))

    def forward(self, x):
        out = self.fc(x) * self.gain  # saves
        self.gain.mul_(1.5)  # overwrites
        return out


torch.manual_seed(0)
net = DistributedDataParallel(Scaled())
a, b = net(torch.randn(2, 3)), net(torch.randn(2, 3))
try:
    (a.sum() + b.sum()).backward()
finally:
    dist.destroy_process_group()
