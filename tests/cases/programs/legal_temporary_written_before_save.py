# kind: legal
import torch

x = torch.randn(64, requires_grad=True)
for _ in range(20):
    with torch.no_grad():
        torch.ones(64).add_(1).mul_(3)  # gone at once: its memory may become that of the next result
    y = x.exp()
    z = y * torch.ones(64).mul_(2)
    z.sum().backward()
