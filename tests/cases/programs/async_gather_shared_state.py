# kind: saved, tensor: state
import asyncio

import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)


async def worker(state, log):
    for _ in range(2):
        log.append(state.square().sum())  # saves
        await asyncio.sleep(0)
        state += 1  # overwrites


async def main():
    state, log = w * 2, []
    await asyncio.gather(worker(state, log), worker(state, log))
    sum(log).backward()


asyncio.run(main())
