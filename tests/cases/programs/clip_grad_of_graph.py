# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
net(torch.randn(4, 3)).square().mean().backward(create_graph=True)
penalty = net.weight.grad.square().sum()  # saves
nn.utils.clip_grad_norm_(net.parameters(), 0.01)  # overwrites
penalty.backward()
