import torch

from .model.core import Core


def main():
    torch.manual_seed(0)
    core = Core()
    loss = core(torch.randn(2, 4)).sum()
    loss.backward()
