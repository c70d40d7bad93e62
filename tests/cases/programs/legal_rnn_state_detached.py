# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
lstm, head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 1)
opt = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
state = None
for _ in range(3):
    out, state = lstm(torch.randn(2, 4, 3), state)
    loss = head(out).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    state = tuple(part.detach_() for part in state)
    state[0].data.mul_(0.5)
