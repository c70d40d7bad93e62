# kind: multi-view, tensor: left
import torch

torch.manual_seed(0)
pair = torch.randn(2, 5, requires_grad=True) * 2
left, right = pair.unbind(0)
pair.mul_(0.5)  # overwrites
(left + right).sum().backward()
