# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.5)
x, y = torch.randn(8, 3), torch.randn(8, 1)
backup = {name: p.data for name, p in net.named_parameters()}
for _ in range(3):
    loss = (net(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # overwrites
for name, p in net.named_parameters():
    p.data = backup[name]
print("RESULT", (net(x) - y).square().mean().item())
