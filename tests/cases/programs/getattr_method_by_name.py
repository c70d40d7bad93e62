# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
y = w.sigmoid()  # saves
for name in ("relu_", "exp_"):
    getattr(y, name)()  # saves, overwrites
y.sum().backward()
