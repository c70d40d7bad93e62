# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.LBFGS(net.parameters(), max_iter=3)
x = torch.randn(5, 3)
reference = net(x).pow(2).mean()  # saves


def closure():
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss


opt.step(closure)  # overwrites
reference.backward()
