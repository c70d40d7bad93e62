# kind: saved
from contextlib import contextmanager

import torch


@contextmanager
def temporarily_scaled(t, k):
    t.mul_(k)  # overwrites
    try:
        yield t
    finally:
        t.div_(k)  # overwrites


torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
scale = torch.rand(3)
loss = (w * scale).sum()  # saves
with temporarily_scaled(scale, 2.0) as s:
    print(s.sum())
loss.backward()
