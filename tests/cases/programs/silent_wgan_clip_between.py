# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
gen = nn.Linear(3, 4)
opt = torch.optim.RMSprop(gen.parameters(), lr=1e-2)
for _ in range(2):
    fake = gen(torch.randn(5, 3))
    loss = -critic(fake).mean()  # saves
    for weight in critic.parameters():
        weight.data.clamp_(-0.05, 0.05)  # overwrites
    opt.zero_grad()
    loss.backward()
    opt.step()
print("RESULT", loss.item(), gen.weight.grad.norm().item())
