# kind: stepped
"""A view made under no_grad lies about, and its base was written since: it may not even be asked whether it is a leaf."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
memory = torch.zeros(4, 3)
with torch.no_grad():
    row = memory[2]
memory += net.weight
value = net(torch.randn(2, 3, requires_grad=True))  # saves
value.mean().backward(retain_graph=True)
optimizer.step()  # overwrites
value.std().backward()
