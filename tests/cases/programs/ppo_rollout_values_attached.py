# kind: stepped
import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pi, self.v = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, state):
        h = torch.tanh(self.body(state))
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)  # saves


torch.manual_seed(0)
net = ActorCritic()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
states, actions, old, values = torch.randn(6, 3), [], [], []
for state in states:
    policy, value = net(state)
    action = policy.sample()
    actions.append(action)
    old.append(policy.log_prob(action))
    values.append(value)
actions, old, values = torch.stack(actions), torch.stack(old), torch.stack(values)
returns = torch.randn(6)
advantages = returns - values
for _ in range(2):
    for batch in torch.arange(6).split(3):
        policy, value = net(states[batch])
        ratio = (policy.log_prob(actions[batch]) - old[batch]).exp()
        loss = -(ratio * advantages[batch]).mean() + (returns[batch] - value).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()  # overwrites
