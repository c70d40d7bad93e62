# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 8))

    def forward(self, z):
        return self.body(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.fc1(x))  # saves
        return self.fc2(h)  # saves


gen, disc = Generator(), Discriminator()
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()

for step in range(3):
    real = torch.randn(6, 8)
    fake = gen(torch.randn(6, 4))
    loss_d = bce(disc(real), torch.ones(6, 1)) + bce(disc(fake.detach()), torch.zeros(6, 1))
    loss_g = bce(disc(fake), torch.ones(6, 1))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()  # overwrites
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
