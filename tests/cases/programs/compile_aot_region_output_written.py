# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
fc = nn.Linear(3, 3)


@torch.compile(backend="aot_eager")
def features(x):
    return fc(x).sigmoid()  # saves


h = features(torch.randn(2, 3))
h *= 2  # overwrites
h.sum().backward()
