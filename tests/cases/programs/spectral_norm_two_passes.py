# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.utils.spectral_norm(nn.Linear(6, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
real, fake = torch.randn(4, 6), torch.randn(4, 6, requires_grad=True)
score = critic(fake)  # saves
loss = -critic(real).mean() + score.mean()
loss.backward(retain_graph=True)
optimizer.step()  # overwrites
score.mean().backward()
