# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.8)
x, y = torch.randn(10, 3), torch.randn(10, 1)
best, best_loss = None, float("inf")
for _ in range(6):
    loss = (net(x) - y).square().mean()
    if loss.item() < best_loss:
        best_loss = loss.item()
        best = [parameter.data for parameter in net.parameters()]
    opt.zero_grad()
    loss.backward()
    opt.step()  # overwrites
for parameter, kept in zip(net.parameters(), best):
    parameter.data.copy_(kept)
print("RESULT", (net(x) - y).square().mean().item())
