# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
z = torch.fft.fft(x)
power = z * z.conj()  # saves
z.real.mul_(2)  # overwrites
(power.real.sum() + z.real.sum()).backward()
