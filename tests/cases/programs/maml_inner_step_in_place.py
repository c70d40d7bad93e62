# kind: leaf
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x = torch.randn(5, 3)
loss = (x @ w).pow(2).mean()
(g,) = torch.autograd.grad(loss, w, create_graph=True)
w -= 0.1 * g  # overwrites
(x @ w).mean().backward()
