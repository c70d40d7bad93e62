# kind: saved
"""The gradients are part of a second graph; zero_grad writes zeros over them instead of dropping them."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(4, 3)).square().mean().backward(create_graph=True)
norm = sum((p.grad * p.grad).sum() for p in net.parameters())  # saves
optimizer.zero_grad(set_to_none=False)  # overwrites
norm.backward()
