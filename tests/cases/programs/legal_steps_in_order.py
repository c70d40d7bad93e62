# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
optimizer_g = torch.optim.Adam(generator.parameters())
optimizer_c = torch.optim.RMSprop(critic.parameters())
for _ in range(3):
    fake = generator(torch.randn(4, 2))
    optimizer_c.zero_grad()
    (critic(fake.detach()).mean() - critic(torch.randn(4, 3)).mean()).backward()
    optimizer_c.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.1, 0.1)
    optimizer_g.zero_grad()
    (-critic(fake).mean()).backward()
    optimizer_g.step()
h = torch.zeros(4, 3)
cell = nn.RNNCell(3, 3)
for x in torch.randn(4, 4, 3):
    h = cell(x, h.detach())
    h.mean().backward()
print(sum(p.sum().item() for p in generator.parameters()))
