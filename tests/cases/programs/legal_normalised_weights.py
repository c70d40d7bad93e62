# kind: legal
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
net = nn.Sequential(
    nn.utils.weight_norm(nn.Linear(4, 6)),
    nn.Tanh(),
    nn.utils.spectral_norm(nn.Linear(6, 6)),
    nn.Tanh(),
    nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
    nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)),
    nn.Linear(6, 1),
)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    opt.zero_grad()
    x = torch.randn(5, 4)
    net(x).mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    nn.utils.clip_grad_value_(net.parameters(), 0.1)
    opt.step()
