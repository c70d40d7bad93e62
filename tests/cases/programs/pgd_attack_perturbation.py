# kind: leaf, tensor: delta
import torch
import torch.nn.functional as F
from torch import nn


def attack(model, image, label, radius=0.1, steps=2):
    delta = torch.zeros_like(image, requires_grad=True)
    for _ in range(steps):
        loss = F.cross_entropy(model(image + delta), label)
        loss.backward()
        delta += 0.02 * delta.grad.sign()  # overwrites
        delta.clamp_(-radius, radius)
        delta.grad.zero_()
    return delta.detach()


torch.manual_seed(0)
attack(nn.Linear(4, 3), torch.rand(2, 4), torch.tensor([0, 2]))
