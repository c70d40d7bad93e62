# kind: silent-other
import copy

import torch
from torch import nn

torch.manual_seed(0)


def soft_update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_(t.data * (1.0 - tau) + s.data * tau)


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        self.target = copy.copy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-2)

    def learn(self, x, r):
        with torch.no_grad():
            goal = r + 0.9 * self.target(x).max(1).values
        loss = (self.q(x).max(1).values - goal).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # overwrites
        soft_update(self.target, self.q, 0.01)
        return loss


agent = Agent()
for _ in range(4):
    loss = agent.learn(torch.randn(8, 3), torch.randn(8))
print("RESULT", loss.item())
