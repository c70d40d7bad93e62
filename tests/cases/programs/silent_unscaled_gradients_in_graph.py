# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
scale = torch.ones(1, requires_grad=True)
scaler.scale(net(torch.randn(5, 4)).square().mean()).backward()
penalty = (scale * net.weight.grad).square().sum()  # saves
scaler.unscale_(opt)  # overwrites
penalty.backward()
scaler.step(opt)
scaler.update()
print("RESULT", scale.grad.item())
