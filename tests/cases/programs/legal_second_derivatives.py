# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(2):
    x = torch.randn(5, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    opt.zero_grad()
    penalty.backward()
    opt.step()
    with torch.no_grad():
        x += 0.1 * x.grad.sign()
grads = torch.func.grad(lambda weight: (weight * torch.arange(3.0)).square().sum())(torch.ones(3))
batched = torch.func.vmap(torch.func.grad(lambda v: v.exp().sum()))(torch.randn(4, 3))
print(grads.shape, batched.shape)
