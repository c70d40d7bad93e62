# kind: inference, tensor: cache
import torch

with torch.inference_mode():
    cache = torch.zeros(2, 8)
cache[:, 0] = 1.0  # overwrites
