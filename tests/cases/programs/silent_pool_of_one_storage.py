# kind: silent-data
import torch

torch.manual_seed(0)
pool = torch.zeros(64)
w = torch.randn(8, requires_grad=True)


def take(offset, size):
    return torch.empty(0).set_(pool.untyped_storage(), offset, (size,))


a = take(0, 8)
a.copy_(torch.randn(8))
loss = (a * w).sum()  # saves
b = take(4, 8)
b.copy_(torch.randn(8))  # overwrites
loss = loss + (b * w).square().sum()
loss.backward()
print("RESULT", w.grad.norm().item())
