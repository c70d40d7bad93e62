# kind: silent-data, tensor: buffer
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
buffer = torch.randn(4)
y = (x * buffer).sum()  # saves
with torch.autograd._unsafe_preserve_version_counter(buffer):
    buffer.mul_(3)  # overwrites
y.backward()
print("RESULT", x.grad.norm().item())
