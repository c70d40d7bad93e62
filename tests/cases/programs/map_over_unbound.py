# kind: saved
import torch

torch.manual_seed(0)
ws = [torch.randn(4, requires_grad=True) for _ in range(2)]
ys = [w.tanh() for w in ws]  # saves
ys = list(map(torch.Tensor.exp_, ys))  # overwrites
sum(ys).sum().backward()
