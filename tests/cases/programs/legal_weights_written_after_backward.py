# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
with torch.no_grad():
    for parameter in net.parameters():
        parameter.uniform_(-0.1, 0.1)
net[0].weight.data.normal_(0, 0.02)
net[0].bias.data.fill_(0)
net[2].weight.data = torch.randn(1, 6) * 0.1
for _ in range(3):
    loss = net(torch.randn(5, 4)).square().mean()
    loss.backward()
    for parameter in net.parameters():
        parameter.data -= 0.1 * parameter.grad.data
        parameter.data.clamp_(-1, 1)
        parameter.grad.data.zero_()
    net[2].weight.data.div_(net[2].weight.data.norm())
