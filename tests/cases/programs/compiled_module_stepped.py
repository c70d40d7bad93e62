# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)), backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
value = net(torch.randn(2, 3, requires_grad=True))  # saves
value.mean().backward(retain_graph=True)
optimizer.step()  # overwrites
value.std().backward()
