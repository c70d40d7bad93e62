# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)


def perturb(clean, target, steps=10):
    moved = clean.detach().requires_grad_()
    optimizer = torch.optim.Adam([moved], lr=0.05)
    for _ in range(steps):
        away = (moved - clean).square().sum()
        loss = nn.functional.cross_entropy(net(moved), target) + away
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # overwrites
    return moved.detach(), loss.item()


clean, target = torch.randn(4, 6), torch.tensor([0, 2, 1, 1])
moved, loss = perturb(clean, target)
print("RESULT", loss, (moved - clean).norm().item())
