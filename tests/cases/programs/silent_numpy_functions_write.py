# kind: silent-alias
import numpy as np
import torch

torch.manual_seed(0)
x = torch.randn(6, requires_grad=True)
y = x.exp()  # saves
loss = (y * 2).sum()
array = np.asarray(y.detach())
np.copyto(array, np.arange(6, dtype=np.float32))  # overwrites
np.add.at(array, [0, 0, 3], 1.0)  # overwrites
array.fill(0.5)  # overwrites
loss.backward()
print("RESULT", x.grad.norm().item())
