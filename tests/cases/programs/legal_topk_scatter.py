# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(0)
gate = nn.Linear(4, 6)
x = torch.randn(3, 4)
logits = gate(x)
top, idx = logits.topk(2, dim=-1)
mask = torch.full_like(logits, float("-inf")).scatter_(1, idx, top)
w = mask.softmax(-1)
loss = (w * torch.arange(6.0)).sum()
loss.backward()
