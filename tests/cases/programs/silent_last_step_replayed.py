# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
last = torch.zeros(2, 4)
pending = None
for _ in range(4):
    pred = torch.tanh(net(last))  # saves
    target = torch.randn(2, 4)
    loss = (pred - target).square().mean()
    last.data.copy_(target)  # overwrites
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
