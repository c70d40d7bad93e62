# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class VAE(nn.Module):
    def __init__(self, d_in=10, z=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d_in, 16), nn.ReLU(), nn.Linear(16, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, d_in))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)  # saves
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.dec(z), mu, logvar, z


class FactorLoss:
    def __init__(self, vae, disc, gamma=2.0):
        self.disc, self.gamma = disc, gamma
        self.opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
        self.opt = torch.optim.Adam(vae.parameters(), lr=1e-3)

    def call_optimize(self, data, model):
        half = data.size(0) // 2
        x1, x2 = data[:half], data[half:]
        recon, mu, logvar, z1 = model(x1)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        d_z = self.disc(z1)
        tc = (d_z[:, 0] - d_z[:, 1]).mean()
        vae_loss = F.mse_loss(recon, x1) + kl + self.gamma * tc

        self.opt.zero_grad()
        vae_loss.backward(retain_graph=True)
        self.opt.step()  # overwrites

        with torch.no_grad():
            z2 = model(x2)[3]
        z_perm = torch.stack([z2[torch.randperm(half), j] for j in range(z2.size(1))], dim=1)
        d_perm = self.disc(z_perm)
        ones = torch.ones(half, dtype=torch.long)
        d_loss = 0.5 * (F.cross_entropy(d_z, ones * 0) + F.cross_entropy(d_perm, ones))
        self.opt_d.zero_grad()
        d_loss.backward()
        self.opt_d.step()
        return vae_loss.item(), d_loss.item()


vae = VAE()
disc = nn.Sequential(nn.Linear(3, 12), nn.LeakyReLU(0.2), nn.Linear(12, 2))
trainer = FactorLoss(vae, disc)
a, b = trainer.call_optimize(torch.randn(12, 10), vae)
print(f"RESULT {a:.5f} {b:.5f} {disc[0].weight.grad.abs().sum().item():.5f}")
