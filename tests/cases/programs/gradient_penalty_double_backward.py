# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
x = torch.randn(5, 3, requires_grad=True)
score = critic(x)  # saves
(grads,) = torch.autograd.grad(score.sum(), x, create_graph=True)  # saves
penalty = (grads.norm(2, dim=1) - 1).pow(2).mean()
(-score.mean()).backward(retain_graph=True)
opt.step()  # overwrites
penalty.backward()
