# kind: legal
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
z = torch.complex(x, torch.zeros(4))
z.imag = torch.ones(4)
z.real += 1
y = z * 2


class Point:
    real = imag = 0.0


p = Point()
p.real = 3.0
p.imag += 1.0
(y.abs().sum() * p.real).backward()
print(x.grad.sum().item(), p.imag)
