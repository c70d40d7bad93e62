# kind: expanded, tensor: bias
import torch

offset = torch.zeros(1, 4)
bias = offset.expand(3, 4)
bias += torch.randn(3, 4)  # overwrites
print(bias.sum())
