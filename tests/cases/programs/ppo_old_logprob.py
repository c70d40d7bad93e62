# kind: stepped
import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
obs, act, adv = torch.randn(8, 4), torch.randint(0, 2, (8,)), torch.randn(8)
old = torch.log_softmax(policy(obs), -1).gather(1, act[:, None]).squeeze(1)  # saves
for epoch in range(3):
    new = torch.log_softmax(policy(obs), -1).gather(1, act[:, None]).squeeze(1)
    ratio = (new - old).exp()
    loss = -(torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()  # overwrites
