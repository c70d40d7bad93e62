import torch

from . import layers


def main():
    torch.manual_seed(0)
    net = layers.Gate(4)
    net(torch.randn(2, 4)).sum().backward()
