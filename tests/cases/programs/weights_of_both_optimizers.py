# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Linear(3, 2)
critics = nn.ModuleList(nn.Linear(2, 1) for _ in range(2))
optimizers = [torch.optim.Adam(critic.parameters(), foreach=flag) for critic, flag in zip(critics, (True, False))]
action = actor(torch.randn(4, 3))
q = [critic(action) for critic in critics]  # saves
for value, optimizer in zip(q, optimizers):
    value.pow(2).mean().backward(retain_graph=True)
    optimizer.step()  # overwrites
(-torch.min(*q).mean()).backward()
