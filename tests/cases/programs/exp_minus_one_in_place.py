# kind: saved, tensor: attn
import torch

x = torch.randn(3, 4, requires_grad=True)
attn = torch.exp(x)  # saves
attn -= attn.mean()  # overwrites
(attn * 2).sum().backward()
