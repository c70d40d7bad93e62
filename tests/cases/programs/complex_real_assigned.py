# kind: saved, tensor: z
import torch

torch.manual_seed(0)
amplitude = torch.rand(8, requires_grad=True)
z = torch.polar(amplitude, torch.rand(8))  # saves
power = z * z  # saves
z.real = torch.zeros(8)  # overwrites
power.abs().sum().backward()
