# kind: silent-data, tensor: y
import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x.exp()  # saves
z = (y * 3).sum()
y.untyped_storage().fill_(0)  # overwrites
z.backward()
print("RESULT", x.grad.norm().item())
