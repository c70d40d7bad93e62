# kind: saved, tensor: energy
import torch


def squared(energy):
    energy *= energy  # saves # overwrites
    return energy.sum()


weights = torch.randn(4, 4, requires_grad=True)
squared(torch.tanh(weights @ torch.ones(4)) + 1).backward()
