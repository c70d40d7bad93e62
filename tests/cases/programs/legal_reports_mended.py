# kind: legal
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
cost = torch.rand(4, 4, requires_grad=True)
plan = torch.exp(-cost)
plan = plan / plan.sum(0, keepdim=True)
delta = torch.zeros(4, requires_grad=True)
F.mse_loss(delta + 1, torch.zeros(4)).backward()
with torch.no_grad():
    delta += 0.02 * delta.grad.sign()
    delta.clamp_(-0.1, 0.1)
delta.grad.zero_()
prediction = nn.Linear(3, 6)(torch.randn(2, 3))
prediction[..., :2] = prediction[..., :2].sigmoid()
prediction[..., 2:4] = prediction[..., 2:4].exp() * 2
book = torch.randn(4, 2)
distance = torch.cdist(nn.Linear(3, 2)(torch.randn(5, 3)), book.clone())
book[0] = 1.0
cache, keys = torch.zeros(3, 4), []
for t in range(3):
    keys.append(delta * t)
    cache[t] = keys[-1].detach()
(plan.sum() + prediction.sum() + distance.sum() + torch.stack(keys).sum()).backward()
print(delta.grad.sum().item())
