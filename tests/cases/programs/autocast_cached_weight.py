# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(2, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
    action = actor(torch.randn(3, 4))
value = critic(action.float())  # saves
value.mean().backward(retain_graph=True)
optimizer.step()  # overwrites
(-value.mean()).backward()
