# kind: saved
"""An observer inside a library module moves its scale in place at each forward."""
import torch
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

torch.manual_seed(0)
quantise = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
w = torch.randn(5, requires_grad=True)
first = quantise(w) * quantise.scale  # saves
second = quantise(w * 3)  # overwrites
(first.sum() + second.sum()).backward()
