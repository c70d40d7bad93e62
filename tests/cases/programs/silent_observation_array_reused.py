# kind: silent-alias
import numpy as np
import torch
from torch import nn


class Env:
    def __init__(self):
        self.state = np.full(3, 0.1, dtype=np.float32)

    def step(self, action):
        self.state += 0.1 * (action - 0.5)  # overwrites
        return self.state, float(self.state.sum())


torch.manual_seed(0)
env, policy = Env(), nn.Linear(3, 2)
obs = env.state
chosen, rewards = [], []
for action in (0, 1, 1):
    logits = policy(torch.from_numpy(obs))  # saves
    chosen.append(logits.log_softmax(-1)[action])
    obs, reward = env.step(action)
    rewards.append(reward)
loss = -(torch.stack(chosen) * torch.tensor(rewards)).sum()
loss.backward()
print("RESULT", policy.weight.grad.norm().item())
