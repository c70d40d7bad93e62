# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(3):
    x = torch.randn(5, 3, requires_grad=True)
    score = critic(x)
    (grads,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = -score.mean() + (grads.norm(2, dim=1) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("RESULT", loss.item())
