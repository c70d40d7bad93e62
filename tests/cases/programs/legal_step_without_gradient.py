# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.pi = nn.Linear(16, 2)
        self.v = nn.Linear(16, 1)

    def forward(self, x):
        h = F.relu(self.body(x))
        return F.softmax(self.pi(h), dim=-1), self.v(h)


class Agent:
    def __init__(self):
        self.net = ActorCritic()
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)

    def update(self, obs, returns):
        probs, values = self.net(obs)
        adv = returns - values.squeeze(-1)
        actor_loss = -(probs[:, 0].log() * adv.detach()).mean()
        critic_loss = adv.pow(2).mean()
        self._step(critic_loss, True)
        self._step(actor_loss, False)
        return actor_loss.item() + critic_loss.item()

    def _step(self, loss, keep):
        self.opt.zero_grad()
        loss.backward(retain_graph=keep)
        self.opt.step()


agent = Agent()
