# kind: legal
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
net = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Tanh()) for _ in range(4)])
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(6, 4, requires_grad=True)
    loss = checkpoint(net, x, use_reentrant=False).square().mean() + checkpoint(net, x, use_reentrant=True).mean()
    loss = loss + checkpoint_sequential(net, 2, x, use_reentrant=False).mean()
    with torch.autograd.graph.save_on_cpu():
        loss = loss + net(x).square().mean()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()):
        loss = loss + net(x).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
