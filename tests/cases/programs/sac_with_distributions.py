# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

torch.manual_seed(0)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.mu, self.log_std = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 2)

    def sample(self, s):
        h = F.relu(self.fc(s))
        dist = Normal(self.mu(h), self.log_std(h).clamp(-5, 2).exp())
        a = dist.rsample()
        return torch.tanh(a), dist.log_prob(a).sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, s, a):
        return self.q(torch.cat([s, a], -1))  # saves


actor, critic = Actor(), Critic()
opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(2):
    s, a, r = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1)
    new_a, logp = actor.sample(s)
    actor_loss = (0.2 * logp - critic(s, new_a)).mean()
    critic_loss = F.mse_loss(critic(s, a), r)
    opt_c.zero_grad()
    critic_loss.backward()
    opt_c.step()  # overwrites
    opt_a.zero_grad()
    actor_loss.backward()
    opt_a.step()
