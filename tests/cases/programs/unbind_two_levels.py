# kind: multi-view, tensor: pixel
import torch

image = torch.ones(2, 3, 4, requires_grad=True).clone()
for row in image:
    for pixel in row:
        pixel += 1  # overwrites
