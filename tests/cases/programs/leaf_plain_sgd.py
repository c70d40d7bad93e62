# kind: leaf, tensor: w
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
for _ in range(2):
    loss = (w * torch.randn(3)).sum()
    loss.backward()
    w -= 0.1 * w.grad  # overwrites
