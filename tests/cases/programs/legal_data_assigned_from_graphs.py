# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
online, target = nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
spare = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)
w = torch.randn(3, requires_grad=True)
for _ in range(4):
    x = torch.randn(5, 3)
    loss = (online(x) - target(x).detach()).square().mean() + (x @ w).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    spare.step()
    for mine, theirs in zip(target.parameters(), online.parameters(), strict=True):
        mine.data = 0.9 * mine + 0.1 * theirs
    w.data = w - 0.1 * w.grad
    w.grad = None
print("RESULT", target.weight.norm().item(), w.norm().item())
