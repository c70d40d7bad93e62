# kind: saved
from concurrent.futures import ThreadPoolExecutor

import torch


def work(seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(3, requires_grad=True, generator=g)
    y = w.tanh()  # saves
    y.mul_(2)  # overwrites
    y.sum().backward()
    return w.grad


with ThreadPoolExecutor(1) as pool:
    pool.submit(work, 1).result()
