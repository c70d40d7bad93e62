# kind: legal
"""States that go from step to step: written after the backward, cloned before, detached, or used by nothing that saves."""
import torch
from torch import nn

torch.manual_seed(0)
cell, gate = nn.RNNCell(3, 4), nn.Parameter(torch.randn(4))


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.register_buffer("h", torch.zeros(1, 2, 4))
        self.register_buffer("c", torch.zeros(1, 2, 4))

    def forward(self, x):
        out, (h, c) = self.lstm(x, (self.h, self.c))
        self.h, self.c = h.detach(), c.detach()
        return out

    def reset(self):
        self.h.zero_()
        self.c.data.zero_()


net = Stateful()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
for _ in range(4):
    optimizer.zero_grad()
    loss = net(torch.randn(2, 5, 3)).square().mean()
    loss.backward()
    optimizer.step()
    net.reset()

last = torch.zeros(2, 4)
for _ in range(4):
    target = torch.randn(2, 4)
    loss = (cell(torch.randn(2, 3), last) * gate - target).square().mean()
    loss.backward()
    last.data.copy_(target)

cloned, total = torch.zeros(2, 4), 0
for _ in range(4):
    new = cell(torch.randn(2, 3), cloned.clone()) * gate
    cloned.data.copy_(new)
    total = total + new.mean()
total.backward()

added, total = torch.zeros(2, 4), 0
for _ in range(4):
    new = torch.tanh(cell.weight_ih.sum() * torch.randn(2, 4) + added)
    with torch.no_grad():
        added.copy_(new)
    total = total + new.mean()
total.backward()
print("RESULT", loss.item(), total.item())
