# kind: saved, tensor: order
import torch

torch.manual_seed(0)
scores = torch.randn(2, 5, requires_grad=True)
order = scores.detach().argsort(-1)
picked = scores.gather(1, order)  # saves
order.copy_(order.flip(-1))  # overwrites
picked[:, 0].sum().backward()
