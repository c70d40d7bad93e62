# kind: legal
import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
online = nn.Linear(4, 3)
target = copy.deepcopy(online).requires_grad_(False)
queue = F.normalize(torch.randn(3, 8), dim=0)
ptr = torch.zeros(1, dtype=torch.long)
opt = torch.optim.SGD(online.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(2, 4)
    q = F.normalize(online(x), dim=1)
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.mul_(0.9).add_(o, alpha=0.1)
        k = F.normalize(target(x), dim=1)
    logits = q @ queue.clone()
    logits /= 0.07
    loss = F.cross_entropy(logits, torch.zeros(2, dtype=torch.long))
    p = int(ptr)
    queue[:, p : p + 2] = k.T
    ptr[0] = (p + 2) % 8
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
print("RESULT", loss.item())
