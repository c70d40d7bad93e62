# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.3, fused=True)
x = torch.randn(6, 4)
for _ in range(2):
    out = net(x)  # saves
    opt.zero_grad()
    out.square().mean().backward(retain_graph=True)
    opt.step()  # overwrites
    out.abs().mean().backward()
print("RESULT", net[0].weight.grad.norm().item())
