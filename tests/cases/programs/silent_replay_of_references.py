# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
state = torch.zeros(3)
replay = []
for t in range(4):
    before = state
    state += torch.randn(3)  # overwrites
    replay.append((before, state))
net = nn.Linear(3, 3)
loss = sum((net(a) - b).square().mean() for a, b in replay)
loss.backward()
print("RESULT", loss.item())
