# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
act = {
    "tanh": lambda t: torch.tanh(t),  # saves
    "shift": lambda t: t.add_(1),  # overwrites
}
x = nn.Linear(3, 3)(torch.randn(2, 3))
for name in ("tanh", "shift"):
    x = act[name](x)
x.sum().backward()
