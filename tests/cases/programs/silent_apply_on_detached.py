# kind: silent-data, tensor: y
import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x.tanh()  # saves
z = (y * 3).sum()
y.detach().apply_(lambda value: round(value, 1))  # overwrites
z.backward()
print("RESULT", x.grad.norm().item())
