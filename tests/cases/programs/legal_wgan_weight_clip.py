# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(0)
G, D = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
og, od = torch.optim.RMSprop(G.parameters(), lr=5e-5), torch.optim.RMSprop(D.parameters(), lr=5e-5)
for step in range(4):
    for p in D.parameters():
        p.data.clamp_(-0.01, 0.01)
    fake = G(torch.randn(5, 3)).detach()
    loss_d = D(fake).mean() - D(torch.randn(5, 4)).mean()
    od.zero_grad()
    loss_d.backward()
    od.step()
    if step % 2 == 0:
        og.zero_grad()
        loss_g = -D(G(torch.randn(5, 3))).mean()
        loss_g.backward()
        og.step()
