# kind: shape-dtype, tensor: counts
import torch

counts = torch.zeros(3, dtype=torch.long)
counts += torch.full((3,), 0.5)  # overwrites
