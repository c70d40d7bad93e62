# kind: legal
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def synchronise(model):
    for parameter in model.parameters():
        dist.broadcast(parameter, src=0)


try:
    synchronise(nn.Linear(2, 2))
finally:
    dist.destroy_process_group()
