# kind: saved, tensor: gain
"""A hook on a later tensor writes, while backward runs, what an earlier node still needs."""
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
gain = torch.full((4,), 2.0)
h = w * gain  # saves
y = h.relu()


def adapt(grad):
    gain.mul_(0.9)  # overwrites


y.register_hook(adapt)
y.sum().backward()
