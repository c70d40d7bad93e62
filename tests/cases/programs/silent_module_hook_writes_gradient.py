# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)


def damp(module, grad_input, grad_output):
    grad_output[0].mul_(0.1)  # overwrites


one, two = nn.Linear(4, 4), nn.Linear(4, 4)
two.register_full_backward_hook(damp)
x = torch.randn(5, 4)
loss = ((one(x) + two(x)) * torch.randn(5, 4)).sum()
loss.backward()
print("RESULT", one.weight.grad.norm().item(), two.weight.grad.norm().item())
