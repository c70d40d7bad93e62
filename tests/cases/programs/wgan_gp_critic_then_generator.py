# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.generator = nn.Linear(2, 3)
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.optimizer_c = torch.optim.Adam(self.critic.parameters(), betas=(0.5, 0.9))
        self.optimizer_g = torch.optim.Adam(self.generator.parameters(), betas=(0.5, 0.9))

    def penalty(self, real, fake):
        mixed = (0.3 * real + 0.7 * fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(mixed).sum(), mixed, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()

    def step(self, real):
        fake = self.generator(torch.randn(len(real), 2))
        score = self.critic(fake)  # saves
        critic_loss = score.mean() - self.critic(real).mean() + self.penalty(real, fake)
        self.optimizer_c.zero_grad()
        critic_loss.backward(retain_graph=True)
        self.optimizer_c.step()  # overwrites
        self.optimizer_g.zero_grad()
        (-score.mean()).backward()
        self.optimizer_g.step()


Trainer().step(torch.randn(4, 3))
