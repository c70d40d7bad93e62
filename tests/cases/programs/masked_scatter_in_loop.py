# kind: saved, tensor: canvas
import torch

torch.manual_seed(0)
source = torch.randn(4, 4, requires_grad=True)
canvas = source.clone()
total = torch.zeros(())
for step in range(3):
    total = total + canvas.square().sum()  # saves
    canvas.masked_scatter_(canvas.detach() > 0, torch.zeros(16))  # overwrites
total.backward()
