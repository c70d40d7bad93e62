# kind: saved, tensor: z.imag
import torch

torch.manual_seed(0)
x = torch.rand(5, requires_grad=True)
z = torch.complex(torch.ones(5), torch.zeros(5))
y = z * x  # saves
with torch.no_grad():
    z.imag += 2.0  # overwrites
y.abs().sum().backward()
