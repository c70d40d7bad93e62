# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.LSTMCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
h, c = torch.zeros(2, 4), torch.zeros(2, 4)
for chunk in range(3):
    loss = 0
    for _ in range(4):
        h, c = cell(torch.randn(2, 3), (h, c))
        loss += head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    h.detach_()
    c.detach_()
print("RESULT", loss.item())
