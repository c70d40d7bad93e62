# kind: legal
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)
        self.log_probs, self.rewards = [], []

    def forward(self, state):
        return torch.softmax(self.head(torch.relu(self.body(state))), dim=-1)


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def act(state):
    choice = Categorical(policy(state))
    action = choice.sample()
    policy.log_probs.append(choice.log_prob(action))
    return action.item()


def finish():
    returns = torch.tensor(policy.rewards).flip(0).cumsum(0).flip(0)
    loss = torch.stack([-log_prob * value for log_prob, value in zip(policy.log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.log_probs[:]


for _ in range(3):
    for _ in range(4):
        policy.rewards.append(float(act(torch.randn(4))))
    finish()
