# kind: stepped
import itertools

import torch
from torch import nn


def net(n):
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, n))


class CycleModel:
    def __init__(self):
        self.to_b, self.to_a, self.disc_a, self.disc_b = net(3), net(3), net(1), net(1)
        both = itertools.chain(self.to_b.parameters(), self.to_a.parameters())
        self.opt_g = torch.optim.SGD(both, lr=0.1)
        self.opt_d = torch.optim.SGD([*self.disc_a.parameters(), *self.disc_b.parameters()], lr=0.1)

    def forward(self, a, b):
        self.a, self.b = a, b
        self.fake_b = self.to_b(a)  # saves
        self.fake_a = self.to_a(b)

    def backward_g(self):
        adversarial = (self.disc_b(self.fake_b) - 1).square().mean() + (self.disc_a(self.fake_a) - 1).square().mean()
        cycle = (self.to_a(self.fake_b) - self.a).abs().mean() + (self.to_b(self.fake_a) - self.b).abs().mean()
        (adversarial + cycle).backward(retain_graph=True)

    def backward_d(self):
        self.one_d(self.disc_b, self.b, self.fake_b)
        self.one_d(self.disc_a, self.a, self.fake_a)

    def one_d(self, disc, real, fake):
        loss = (disc(real) - 1).square().mean() + disc(fake).square().mean()
        loss.backward()

    def optimize(self, a, b):
        self.forward(a, b)
        self.opt_g.zero_grad()
        self.backward_g()
        self.opt_g.step()  # overwrites
        self.opt_d.zero_grad()
        self.backward_d()
        self.opt_d.step()


torch.manual_seed(0)
model = CycleModel()
for _ in range(2):
    model.optimize(torch.randn(2, 3), torch.randn(2, 3))
