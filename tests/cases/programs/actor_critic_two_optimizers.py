# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 32)
        self.hidden = nn.Linear(32, 32)
        self.pi = nn.Linear(32, 2)
        self.v = nn.Linear(32, 1)

    def forward(self, s):
        z = F.relu(self.trunk(s))
        z = F.relu(self.hidden(z))  # saves
        return self.pi(z), self.v(z)


def optimise(optimizer, loss, retain=False):
    optimizer.zero_grad()
    loss.backward(retain_graph=retain)
    optimizer.step()  # overwrites


torch.manual_seed(1)
net = Shared()
actor_opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
critic_opt = torch.optim.RMSprop(net.parameters(), lr=0.01)
states = torch.randn(10, 4)
logits, values = net(states)
returns = torch.randn(10, 1)
advantage = returns - values
dist = torch.distributions.Categorical(logits=logits)
policy_loss = -(dist.log_prob(dist.sample()) * advantage.squeeze(-1).detach()).mean()
value_loss = advantage.pow(2).mean()
optimise(actor_opt, policy_loss, retain=True)
optimise(critic_opt, value_loss)
