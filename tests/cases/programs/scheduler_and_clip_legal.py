# kind: legal
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(True), nn.Linear(4, 1))
ema = AveragedModel(net)
opt = torch.optim.AdamW(net.parameters())
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5)
for _ in range(4):
    loss = net(torch.randn(2, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.1)
    opt.step()
    sched.step()
    ema.update_parameters(net)
print("RESULT", loss.item())
