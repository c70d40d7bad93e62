# kind: stepped
"""Each parameter is stepped as soon as its gradient is there; a weight that is used twice is then still needed."""
import torch
from torch import nn

torch.manual_seed(0)
shared = nn.Linear(4, 4, bias=False)
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in shared.parameters()}


def step_now(parameter):
    optimizers[parameter].step()  # overwrites
    optimizers[parameter].zero_grad()


for parameter in shared.parameters():
    parameter.register_post_accumulate_grad_hook(step_now)

x = torch.randn(2, 4, requires_grad=True)
first = shared(x)  # saves
first.sum().backward(retain_graph=True)
(first * 2).sum().backward()
