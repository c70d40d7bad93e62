# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)


class QNetwork(nn.Module):
    def __init__(self, s_dim, a_dim, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s_dim + a_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, states, actions):
        return self.net(torch.cat([states, actions], dim=-1))  # saves


class GaussianPolicy(nn.Module):
    def __init__(self, s_dim, a_dim, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s_dim, hidden), nn.ReLU(), nn.Linear(hidden, 2 * a_dim))

    def sample(self, states):
        mean, log_std = self.net(states).chunk(2, dim=-1)
        dist = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        x = dist.rsample()
        log_prob = (dist.log_prob(x) - torch.log(1 - x.tanh() ** 2 + 1e-6)).sum(-1, keepdim=True)
        return x.tanh(), -log_prob


def update_params(optim, loss):
    optim.zero_grad()
    loss.backward()
    optim.step()  # overwrites


class SacAgent:
    def __init__(self, s_dim=5, a_dim=2, lr=1e-3, alpha=0.2, gamma=0.99):
        self.Q1, self.Q2 = QNetwork(s_dim, a_dim), QNetwork(s_dim, a_dim)
        self.policy = GaussianPolicy(s_dim, a_dim)
        self.optims = [torch.optim.Adam(m.parameters(), lr=lr) for m in (self.Q1, self.Q2, self.policy)]
        self.alpha, self.gamma = alpha, gamma

    def calc_critic_loss(self, s, a, r, s2):
        with torch.no_grad():
            a2, entropy = self.policy.sample(s2)
            target = r + self.gamma * (torch.min(self.Q1(s2, a2), self.Q2(s2, a2)) + self.alpha * entropy)
        return F.mse_loss(self.Q1(s, a), target), F.mse_loss(self.Q2(s, a), target)

    def calc_policy_loss(self, s):
        a, entropy = self.policy.sample(s)
        return -(torch.min(self.Q1(s, a), self.Q2(s, a)) + self.alpha * entropy).mean()

    def learn(self, batch):
        q1_loss, q2_loss = self.calc_critic_loss(*batch)
        policy_loss = self.calc_policy_loss(batch[0])
        update_params(self.optims[0], q1_loss)
        update_params(self.optims[1], q2_loss)
        update_params(self.optims[2], policy_loss)
        return q1_loss.item() + q2_loss.item(), policy_loss.item()


agent = SacAgent()
batch = (torch.randn(16, 5), torch.rand(16, 2) * 2 - 1, torch.randn(16, 1), torch.randn(16, 5))
q_loss, policy_loss = agent.learn(batch)
grads = sum(p.grad.abs().sum().item() for p in agent.policy.parameters())
print(f"RESULT {q_loss:.5f} {policy_loss:.5f} {grads:.5f}")
