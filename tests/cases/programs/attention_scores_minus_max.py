# kind: legal
import torch

torch.manual_seed(0)
q = torch.randn(2, 4, 8, requires_grad=True)
k = torch.randn(2, 4, 8, requires_grad=True)
scores = q @ k.transpose(1, 2)
scores /= 8 ** 0.5
scores -= scores.amax(-1, keepdim=True).detach()
scores.masked_fill_(torch.eye(4, dtype=torch.bool), -1e9)
w = scores.softmax(-1)
(w @ torch.randn(2, 4, 8)).sum().backward()
print("RESULT", q.grad.sum().item())
