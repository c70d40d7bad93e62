# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1), nn.BatchNorm1d(1, affine=False))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net.train()
    real, fake = torch.randn(8, 4), torch.randn(8, 4)
    loss = net(real).mean() - net(fake).mean() + net(real).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        net(real)
    tuned = net(fake).square().mean()
    tuned.backward()
    net.train()
    net(real)
