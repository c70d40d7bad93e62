# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
step = torch.compile(opt.step, backend="aot_eager")
for _ in range(2):
    value = net(torch.randn(2, 3, requires_grad=True))
    other = net(torch.randn(2, 3))
    value.mean().backward(retain_graph=True)
    value.std().backward()
    step()
