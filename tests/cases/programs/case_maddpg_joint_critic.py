# kind: stepped
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)


def mlp(d_in, d_out, out=None):
    layers = [nn.Linear(d_in, 24), nn.ReLU(), nn.Linear(24, d_out)]
    return nn.Sequential(*layers, out) if out is not None else nn.Sequential(*layers)


class Actor(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.pi = mlp(obs_dim, n_actions, nn.Tanh())

    def forward(self, obs):
        return self.pi(obs)  # saves


@dataclass
class Agent:
    actor: Actor
    critic: nn.Module
    actor_opt: torch.optim.Optimizer
    critic_opt: torch.optim.Optimizer


def make_agent(obs_dim, n_actions, joint_dim):
    actor, critic = Actor(obs_dim, n_actions), mlp(joint_dim, 1)
    return Agent(actor, critic, torch.optim.Adam(actor.parameters(), lr=1e-2),
                 torch.optim.Adam(critic.parameters(), lr=1e-2))


class MADDPG:
    def __init__(self, n_agents=3, obs_dim=4, n_actions=2):
        joint = n_agents * (obs_dim + n_actions)
        self.agents = [make_agent(obs_dim, n_actions, joint) for _ in range(n_agents)]

    def learn(self, obs, actions, rewards):
        states = torch.cat(obs, dim=1)
        old_joint = torch.cat([states, *actions], dim=1)
        mu = [agent.actor(o) for agent, o in zip(self.agents, obs)]
        report = []
        for i, agent in enumerate(self.agents):
            critic_loss = F.mse_loss(agent.critic(old_joint), rewards[:, i:i + 1])
            agent.critic_opt.zero_grad()
            critic_loss.backward()
            agent.critic_opt.step()
            joint = torch.cat([states, *mu], dim=1)
            actor_loss = -agent.critic(joint).mean()
            agent.actor_opt.zero_grad()
            actor_loss.backward(retain_graph=True)
            agent.actor_opt.step()  # overwrites
            report.append((critic_loss.item(), actor_loss.item()))
        return report


learner = MADDPG()
obs = [torch.randn(10, 4) for _ in range(3)]
report = learner.learn(obs, [torch.rand(10, 2) for _ in range(3)], torch.randn(10, 3))
grads = sum(p.grad.abs().sum().item() for a in learner.agents for p in a.actor.parameters())
print("RESULT " + " ".join(f"{c:.5f} {a:.5f}" for c, a in report) + f" {grads:.5f}")
