# kind: legal
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 1)

    def features(self, x):
        return self.body(x)

    def forward(self, x, flag):
        return checkpoint(self.features, x, use_reentrant=flag)


torch.manual_seed(0)
net = Both()
mine = torch.optim.SGD(net.body.parameters(), lr=0.1)
theirs = torch.optim.Adam(net.critic.parameters(), lr=0.1, fused=True)
for flag in (True, False, True, False):
    x = torch.randn(2, 3, requires_grad=True)
    features = net(x, flag)
    theirs.zero_grad()
    net.critic(features.detach()).square().mean().backward()
    theirs.step()
    dropped = net(x, flag)
    mine.zero_grad()
    net.critic(features).mean().backward()
    mine.step()
    with torch.no_grad():
        net.body[0].weight.mul_(0.9)
    net.body[0].weight.data.clamp_(-0.5, 0.5)
    net.critic(net.body(x)).mean().backward()
print("RESULT", net.body[0].weight.grad.norm().item())
