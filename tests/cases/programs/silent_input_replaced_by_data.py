# kind: silent-data, tensor: x
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
x = torch.randn(3, 4, requires_grad=True)
loss = net(x).square().sum()  # saves
x.data = x.data + 0.3 * torch.randn(3, 4)  # overwrites
loss.backward()
print("RESULT", net[0].weight.grad.norm().item())
