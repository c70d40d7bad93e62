# kind: silent-data
import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x.exp()  # saves
z = (y * 3).sum()
other = torch.from_dlpack(y.detach())
other.zero_()  # overwrites
z.backward()
print("RESULT", x.grad.norm().item())
