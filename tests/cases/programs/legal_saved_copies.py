# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
y = w.exp()
z = y.clone()
z += 1
z[0] = 0
s = w + 1
s *= 2
s.relu_()
t = torch.zeros(3, 4)
for i in range(3):
    t[i] = w * i
h = nn.Linear(4, 4)(t)
h.add_(1).clamp_(0)
q, k = h.chunk(2, -1)
q = q * 2
(y.sum() + z.sum() + s.sum() + h.sum() + (q * k).sum()).backward()
print(w.grad.sum().item())
