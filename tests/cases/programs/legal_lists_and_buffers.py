# kind: legal
import collections

import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(3, 4)
hidden, outputs = torch.zeros(2, 4), []
window = collections.deque(maxlen=3)
scratch = torch.empty(2)
for step in range(4):
    hidden = cell(torch.randn(2, 3), hidden)
    outputs.append(hidden)
    window.append(hidden.detach())
    scratch.copy_(hidden[:, 0].detach())
    window.append(scratch.clone())
zeros = [torch.zeros(3) for _ in range(4)]
for zero in zeros:
    zero += 1
same = [torch.zeros(2)] * 3
total = torch.stack(same).sum() + torch.stack(outputs).sum()
counts = torch.zeros(5)
counts[torch.tensor([0, 2, 4])] += 1
counts[torch.tensor([True, False, True, False, False])] += 1
counts.index_add_(0, torch.tensor([0, 0, 1]), torch.ones(3))
total.backward()
results = []
buffer = torch.zeros(3)
for epoch in range(3):
    results = []
    buffer.fill_(epoch)
    results.append(buffer)
