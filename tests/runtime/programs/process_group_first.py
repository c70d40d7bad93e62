"""A process group that began before anything was watched, and one that began by another name; twice each."""

import sys

import torch
import torch.distributed as dist
from torch.distributed import init_process_group

import outplace


def lost():
    """A collective writes memory that a backward needs: some versions of torch raise, some give a wrong gradient."""
    x = torch.linspace(-1, 1, 4, requires_grad=True)
    y = x.exp()
    dist.all_gather([y.detach()], torch.full((4,), 7.0))
    try:
        (y * 3).sum().backward()
    except RuntimeError:
        return True
    return x.grad.tolist() == [21.0] * 4


def begin():
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


if sys.argv[1] == "before":
    begin()
for _ in range(2):
    with outplace.watch() as watched:
        if sys.argv[1] == "inside":
            begin()
        wrong = lost()
        if sys.argv[1] == "inside":
            dist.destroy_process_group()
    (diagnosis,) = watched.diagnoses
    (mutation,) = diagnosis.mutations
    print(wrong, mutation.operation, mutation.site.text.strip())
