# kind: legal
"""Networks and weights that are copies indeed, ties that are meant, lists whose entries have become tensors of their own."""
import copy

import torch
from torch import nn

torch.manual_seed(0)
x, reward = torch.randn(8, 3), torch.randn(8)


def soft_update(target, source, tau):
    for theirs, ours in zip(target.parameters(), source.parameters()):
        theirs.data.copy_(theirs.data * (1.0 - tau) + ours.data * tau)


q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
target, tied = copy.deepcopy(q), nn.Linear(2, 2)
tied.bias = q[2].bias
optimizer = torch.optim.Adam(q.parameters(), lr=1e-2)
backup = {name: p.data.clone() for name, p in q.named_parameters()}
copies = [p.detach().clone() for p in q.parameters()]
best = copy.deepcopy(q.state_dict())
for _ in range(4):
    with torch.no_grad():
        goal = reward + 0.9 * target(x).max(1).values
    loss = (tied(q(x)).max(1).values - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last = q.state_dict()
    soft_update(target, q, 0.01)
q.load_state_dict(last)
for name, p in q.named_parameters():
    p.data = backup[name]
    p.data = p.data
with torch.no_grad():
    for p, old in zip(q.parameters(), copies):
        p.copy_(old)
        p.mul_(0.99).add_(p, alpha=0.01)
q.load_state_dict(best)
same = copy.copy(q)
for one, other in zip(same.parameters(), q.parameters()):
    assert one is other

zero = torch.zeros(3)
states = [zero for _ in range(4)]
for i in range(4):
    states[i] = states[i] + torch.randn(3)
zero += 1
cache = {}
for _ in range(5):
    zero.mul_(0.5)
    cache["state"] = zero
print("RESULT", loss.item(), torch.stack(states).norm().item())
