# kind: leaf-view, tensor: flat
import torch

weights = torch.zeros(2, 3, requires_grad=True)
flat = weights.view(-1)
for index, value in enumerate(range(6)):
    flat[index] = value  # overwrites
