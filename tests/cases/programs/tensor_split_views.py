# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(6, 4, requires_grad=True)
states = x.exp()  # saves
first, second = states.tensor_split(2)
first += 1.0  # overwrites
second *= 2.0  # overwrites
states.sum().backward()
