# kind: saved, tensor: alpha
import torch

torch.manual_seed(0)
density = torch.rand(2, 6, requires_grad=True)
alpha = 1 - torch.exp(-density)
transmittance = torch.cumprod(1 - alpha, -1)
weights = alpha * transmittance  # saves
alpha[..., -1] = 1.0  # overwrites
weights.sum().backward()
