# kind: saved, tensor: image
import torch

torch.manual_seed(0)
w = torch.randn(3, 4, requires_grad=True)
image = w.sigmoid()  # saves
image[0], image[2] = image[2].clone(), image[0].clone()  # overwrites
image.sum().backward()
