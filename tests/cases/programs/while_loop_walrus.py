# kind: saved, tensor: x
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x, steps, total = w * 4, 0, 0
while (energy := (x * x).sum()) > 0.5 and steps < 3:  # saves
    x -= 0.5 * x.detach()  # overwrites
    steps, total = steps + 1, total + energy
total.backward()
