# kind: legal
import random
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(45)
random.seed(45)
Transition = namedtuple("Transition", "state action next_state reward")
BATCH, GAMMA, TAU = 8, 0.99, 0.05


class DQN(nn.Module):
    def __init__(self, n_obs=4, n_act=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_obs, 16), nn.ReLU(inplace=True), nn.Linear(16, n_act))

    def forward(self, x):
        return self.net(x)


policy_net, target_net = DQN(), DQN()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.RMSprop(policy_net.parameters(), lr=1e-2)
memory = [Transition(torch.randn(1, 4), torch.randint(0, 3, (1, 1)),
                     None if i % 5 == 0 else torch.randn(1, 4), torch.randn(1)) for i in range(30)]


def optimize_model():
    batch = Transition(*zip(*random.sample(memory, BATCH)))
    alive = torch.tensor([s is not None for s in batch.next_state])
    next_states = torch.cat([s for s in batch.next_state if s is not None])
    q = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(BATCH)
    next_values[alive] = target_net(next_states).max(1).values.detach()
    expected = next_values * GAMMA + torch.cat(batch.reward)
    loss = F.smooth_l1_loss(q, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    for param in policy_net.parameters():
        param.grad.data.clamp_(-0.05, 0.05)
    optimizer.step()
    return loss.item()


def soft_update():
    with torch.no_grad():
        for t, p in zip(target_net.parameters(), policy_net.parameters()):
            t.lerp_(p, TAU)


losses = []
for step in range(4):
    losses.append(optimize_model())
    soft_update()
grads = sum(p.grad.abs().sum().item() for p in policy_net.parameters())
print(f"RESULT {sum(losses):.5f} {losses[-1]:.5f} {grads:.5f}")
