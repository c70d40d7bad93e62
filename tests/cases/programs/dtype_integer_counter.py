# kind: shape-dtype, tensor: counts
import torch

counts = torch.zeros(4, dtype=torch.long)
counts += torch.rand(4)  # overwrites
