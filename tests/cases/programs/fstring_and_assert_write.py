# kind: saved, tensor: p
import torch

torch.manual_seed(0)
p = torch.softmax(torch.randn(4, requires_grad=True), 0)  # saves
print(f"largest {p.clamp_(min=0.2).max().item():.1f}")  # overwrites
assert p.div_(p.detach().sum()).sum() > 0  # overwrites
p.prod().log().backward()
