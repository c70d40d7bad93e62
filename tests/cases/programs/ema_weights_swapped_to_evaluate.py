# kind: stepped
import torch
from torch import nn


class Average:
    def __init__(self, net):
        self.net = net
        self.mean = [weight.detach().clone() for weight in net.parameters()]
        self.kept = []

    @torch.no_grad()
    def swap_in(self):
        self.kept = [weight.clone() for weight in self.net.parameters()]
        for weight, mean in zip(self.net.parameters(), self.mean, strict=True):
            weight.copy_(mean)  # overwrites

    @torch.no_grad()
    def swap_out(self):
        for weight, kept in zip(self.net.parameters(), self.kept, strict=True):
            weight.copy_(kept)  # overwrites


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
average = Average(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
held_out = torch.randn(4, 3)
for x in torch.randn(2, 5, 3):
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()  # saves
    average.swap_in()
    with torch.no_grad():
        score = net(held_out).square().mean()
    average.swap_out()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
