# kind: saved, tensor: state
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
state = torch.ones(3)
total = 0
for divisor in (1, 0, 2):
    try:
        scale = 1 / divisor
    except ZeroDivisionError:
        state.zero_()  # overwrites
    else:
        total = total + (w * state).sum()  # saves
        state.mul_(scale)  # overwrites
total.backward()
