# kind: saved
from dataclasses import dataclass

import torch
import torch.nn as nn

torch.manual_seed(13)


@dataclass
class Limits:
    box: float = 1.5
    drag: float = 0.3


class Integrator:
    @staticmethod
    def euler(pos, vel, acc, dt):
        pos += vel * dt  # overwrites
        vel += acc * dt  # overwrites
        return pos, vel


class Dynamics:
    def __init__(self, num, dt=0.05, limits=Limits()):
        self.num, self.dt, self.limits = num, dt, limits
        self.reset()

    def reset(self):
        self._pos = torch.randn(3, self.num)
        self._vel = torch.zeros(3, self.num)

    @property
    def position(self):
        return self._pos.T

    @property
    def velocity(self):
        return self._vel.T

    def step(self, command):
        speed = self._vel.norm(dim=0, keepdim=True)  # saves
        acc = command.T - self.limits.drag * speed * self._vel  # saves
        self._pos, self._vel = Integrator.euler(self._pos, self._vel, acc, self.dt)


class HoverEnv(Dynamics):
    def observe(self):
        return torch.cat([self.position, self.velocity], dim=1)

    def reward(self):
        outside = torch.relu(self.position.abs() - self.limits.box).sum(dim=1)  # saves
        return -self.position.pow(2).sum(dim=1) - 5.0 * outside  # saves


policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
env = HoverEnv(num=8)
returns = torch.zeros(8)
for t in range(6):
    env.step(policy(env.observe()))
    returns = returns + 0.99 ** t * env.reward()
loss = -returns.mean()
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in policy.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
