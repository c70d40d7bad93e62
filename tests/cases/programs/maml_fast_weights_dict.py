# kind: saved
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Linear(3, 1)
fast = {name: p.clone() for name, p in net.named_parameters()}
x = torch.randn(4, 3, requires_grad=True)
for _ in range(2):
    loss = functional_call(net, fast, (x,)).pow(2).mean()  # saves
    grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    for value, grad in zip(fast.values(), grads):
        value -= 0.1 * grad  # overwrites
functional_call(net, fast, (x,)).mean().backward()
