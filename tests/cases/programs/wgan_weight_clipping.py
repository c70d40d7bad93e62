# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
fake = torch.randn(5, 2, requires_grad=True)
loss = -critic(fake).mean()  # saves
with torch.no_grad():
    for p in critic.parameters():
        p.clamp_(-0.01, 0.01)  # overwrites
loss.backward()
