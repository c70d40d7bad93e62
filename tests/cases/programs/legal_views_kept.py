# kind: legal
"""Views of a tensor that is written: of parts that stay as they are, each of another part, or copies of them."""

import torch

torch.manual_seed(0)
weight = torch.rand(3, requires_grad=True)
state = torch.zeros(2, 3)
still, rows, copies, last = [], [], [], []
table = torch.zeros(4, 3)
for t in range(4):
    state[0] = weight * t
    table[t] = state[0]
    still.append(state[1])
    rows.append(table[t])
    copies.append(state[0].clone())
    last.append(state[0])
    last.pop()
loss = (torch.stack(still) + torch.stack(rows) + torch.stack(copies)).pow(2).sum()
loss.backward()
print(weight.grad.sum().item())
