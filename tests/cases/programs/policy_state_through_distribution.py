# kind: stepped
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.actor = nn.LSTMCell(3, 6), nn.Linear(6, 2)
        self.reset()

    def reset(self):
        self.state = (torch.zeros(1, 6), torch.zeros(1, 6))

    def forward(self, observation):
        self.state = self.cell(observation, self.state)  # saves
        return torch.distributions.Categorical(logits=self.actor(self.state[0]))


def train(policy, optimizer, episodes=2, length=4):
    for _ in range(episodes):
        policy.reset()
        for _ in range(length):
            distribution = policy(torch.randn(1, 3))
            action = distribution.sample()
            loss = -distribution.log_prob(action).mean() * 0.7
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()  # overwrites
    return loss


torch.manual_seed(0)
policy = Policy()
loss = train(policy, torch.optim.Adam(policy.parameters(), lr=1e-2))
