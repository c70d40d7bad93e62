# kind: saved, tensor: gate
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
gate = torch.ones(3)
h = w * 2
h *= (  # saves
    gate
)
h -= (
    torch.sigmoid(w)
)
gate.zero_()  # overwrites
h.sum().backward()
