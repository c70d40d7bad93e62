# kind: saved
import asyncio

import torch
from torch import nn

net = nn.Linear(3, 3)


async def forward(x):
    await asyncio.sleep(0)
    return torch.tanh(net(x))  # saves


async def main():
    torch.manual_seed(0)
    first, second = await asyncio.gather(forward(torch.randn(2, 3)), forward(torch.randn(2, 3)))
    await asyncio.sleep(0)
    first.add_(second)  # overwrites
    first.sum().backward()


asyncio.run(main())
