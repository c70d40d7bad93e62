# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
y = w.tanh()  # saves
torch.Tensor.mul_(y, 2)  # overwrites
y.sum().backward()
