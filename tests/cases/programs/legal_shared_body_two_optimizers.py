# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.policy_head, self.value_head = nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, s):
        h = torch.relu(self.body(s))
        return self.policy_head(h), self.value_head(h).squeeze(-1)


class Agent:
    def __init__(self):
        self.net = Shared()
        self.value_opt = torch.optim.SGD([*self.net.body.parameters(), *self.net.value_head.parameters()], lr=0.1)
        self.policy_opt = torch.optim.SGD([*self.net.body.parameters(), *self.net.policy_head.parameters()], lr=0.1)

    def train(self, states, actions, returns):
        logits, values = self.net(states)
        advantage = (returns - values).detach()
        value_loss = F.mse_loss(values, returns)
        policy_loss = (F.cross_entropy(logits, actions, reduction="none") * advantage).mean()

        self.value_opt.zero_grad()
        value_loss.backward(retain_graph=True)
        self.value_opt.step()

        self.policy_opt.zero_grad()
        policy_loss.backward()
        self.policy_opt.step()
        return value_loss.item(), policy_loss.item()


agent = Agent()
v, p = agent.train(torch.randn(6, 4), torch.randint(0, 2, (6,)), torch.randn(6))
print(f"RESULT {v:.5f} {agent.net.value_head.weight.abs().sum().item():.5f}")
