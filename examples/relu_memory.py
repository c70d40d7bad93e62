"""How much memory does ReLU in place save? The often-quoted experiment, and what becomes of it in training.

    python examples/relu_memory.py --device cuda

One ReLU by itself saves a whole tensor. Between two layers of a network in training it saves nothing at the peak: ReLU
keeps its result for the backward, which the next layer keeps anyway, and the input is gone as soon as nobody holds it.
Leaky ReLU is another matter: out of place it keeps its input, so that both stay.
"""

from __future__ import annotations

import argparse
import weakref
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Peak(TorchDispatchMode):
    """The most bytes that the results of operations have taken together, for a CPU, which keeps no such figure."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and all(tensor is not arg for arg in args):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.alive:
                    self.alive[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.alive.pop, storage._cdata, None)  # it lives as long as its memory
        self.most = max(self.most, sum(self.alive.values()))
        return result


def peak(run: Callable[[], object], device: str) -> float:
    """MiB that a piece of code takes at its peak."""
    if device == "cpu":
        with Peak() as watched:
            run()
        return watched.most / 2**20
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def one_relu(inplace: bool, device: str) -> float:
    x = torch.randn(10_000, 10_000, device=device)
    return peak(lambda: F.relu(x, inplace=inplace), device)


def training_step(layer: Callable[[], nn.Module], device: str) -> float:
    blocks = [m for _ in range(8) for m in (nn.Conv2d(32, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), layer())]
    model = nn.Sequential(*blocks).to(device)
    images = torch.randn(8, 32, 64, 64, device=device)

    def step() -> None:
        model.zero_grad()
        model(images).mean().backward()

    step()
    return peak(step, device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    print("one ReLU of 10,000 x 10,000 numbers, no gradient (MiB)")
    for inplace in (False, True):
        print(f"  {'in place' if inplace else 'out of place':13} {one_relu(inplace, device):8.1f}")
    print("a training step of eight convolutions with batch norm (MiB)")
    for name, layer in (("ReLU", nn.ReLU), ("LeakyReLU", nn.LeakyReLU)):
        for inplace in (False, True):
            taken = training_step(lambda layer=layer, inplace=inplace: layer(inplace=inplace), device)
            print(f"  {name:10} {'in place' if inplace else 'out of place':13} {taken:8.1f}")


if __name__ == "__main__":
    main()
