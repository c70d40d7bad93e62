# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.AdaptiveAvgPool1d(1))
buffer = torch.zeros(4, 2, 8)
for step in range(3):
    buffer.copy_(torch.randn(4, 2, 8))
    buffer[:, 0] *= 2
    buffer.sub_(buffer.mean())
    out = net(buffer.clone()).squeeze(-1)
    out += 1
    scores = out.clone()
    scores[:, 0] = 0
    scores.relu_()
    loss = scores.sum()
    loss += out.mean()
    net.zero_grad()
    loss.backward()
    buffer.zero_()
x = torch.randn(3, requires_grad=True)
with torch.no_grad():
    x.add_(1).clamp_(-1, 1)
    x[0] = 0
x.data.mul_(2)
(x * 2).sum().backward()
x.grad.zero_()
y = x * 1
y[1:2].neg_()
y.unsqueeze_(0).squeeze_(0)
y.sum().backward()
print("RESULT", x.grad.sum().item())
