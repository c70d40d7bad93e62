# kind: legal
import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
swa, schedule = AveragedModel(net), SWALR(opt, swa_lr=0.05)
ema = AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
slow = copy.deepcopy(net)
shadow = {name: value.detach().clone() for name, value in net.named_parameters()}
batches = [torch.randn(8, 4) for _ in range(4)]
best = copy.deepcopy(net.state_dict())
for batch in batches:
    opt.zero_grad()
    net(batch).square().mean().backward()
    opt.step()
    swa.update_parameters(net)
    ema.update_parameters(net)
    schedule.step()
    for old, new in zip(slow.parameters(), net.parameters()):
        old.data.mul_(0.9).add_(new.data, alpha=0.1)
    for name, value in net.named_parameters():
        shadow[name].lerp_(value.data, 0.1)
    kept = {name: value.data.clone() for name, value in net.named_parameters()}
    for name, value in net.named_parameters():
        value.data.copy_(shadow[name])
    with torch.no_grad():
        net(batch)
    for name, value in net.named_parameters():
        value.data.copy_(kept[name])
update_bn(batches, swa)
net.load_state_dict(best)
net.eval()
with torch.no_grad():
    net(batches[0])
