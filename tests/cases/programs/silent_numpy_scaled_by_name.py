# kind: silent-alias
import torch

x = torch.linspace(-1, 1, 6, requires_grad=True)
y = torch.sigmoid(x)  # saves
loss = y.sum()
picture = y.detach().numpy()
picture *= 255  # overwrites
print(picture.round().max())
loss.backward()
print("RESULT", x.grad.norm().item())
