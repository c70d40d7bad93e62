# kind: stepped
import torch
from torch import nn


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)])

    def forward(self, x):
        features = []
        for layer in self.layers[:-1]:
            x = nn.functional.leaky_relu(layer(x), 0.2)  # saves
            features.append(x)
        return self.layers[-1](x), features  # saves


class Translator:
    def __init__(self):
        self.netG = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
        self.netD = Discriminator()
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=1e-2)
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=1e-2)
        self.bce = nn.BCEWithLogitsLoss()

    def set_input(self, source, real):
        self.source, self.real = source, real

    def forward(self):
        self.fake = self.netG(self.source)

    def compute_g(self):
        score, features = self.netD(self.fake)
        _, wanted = self.netD(self.real)
        self.loss_g = self.bce(score, torch.ones_like(score))
        for a, b in zip(features, wanted):
            self.loss_g = self.loss_g + nn.functional.l1_loss(a, b.detach())

    def compute_d(self):
        real, _ = self.netD(self.real)
        fake, _ = self.netD(self.fake.detach())
        self.loss_d = self.bce(real, torch.ones_like(real)) + self.bce(fake, torch.zeros_like(fake))

    def optimize(self):
        self.forward()
        self.compute_d()
        self.compute_g()
        self.optD.zero_grad()
        self.loss_d.backward()
        self.optD.step()  # overwrites
        self.optG.zero_grad()
        self.loss_g.backward()
        self.optG.step()


torch.manual_seed(0)
translator = Translator()
for _ in range(3):
    translator.set_input(torch.randn(5, 3), torch.randn(5, 4))
    translator.optimize()
