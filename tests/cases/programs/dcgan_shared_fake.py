# kind: stepped
import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()
for it in range(2):
    real = torch.randn(6, 8)
    fake = G(torch.randn(6, 4))
    d_real, d_fake = D(real), D(fake)  # saves
    loss_d = bce(d_real, torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))
    loss_g = bce(d_fake, torch.ones_like(d_fake))
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()  # overwrites
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
