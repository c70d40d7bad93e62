# kind: saved, tensor: buffer
import torch

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
buffer = torch.empty(2, 4)
torch.mul(torch.randn(2, 4), 2.0, out=buffer)
y = buffer @ w  # saves
torch.add(buffer, 1.0, out=buffer)  # overwrites
y.sum().backward()
