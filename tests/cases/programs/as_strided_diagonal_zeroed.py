# kind: saved, tensor: affinity
import torch

torch.manual_seed(0)
x = torch.randn(4, 3, requires_grad=True)
affinity = torch.exp(x @ x.T)  # saves
torch.diagonal(affinity).fill_(0)  # overwrites
affinity.as_strided((4,), (5,)).add_(1e-6)  # overwrites
affinity.sum().backward()
