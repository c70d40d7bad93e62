# kind: saved, tensor: x
import torch

torch.manual_seed(0)


@torch.compile(backend="aot_eager")
def score(a, x, w):
    shifted = x + a
    scaled = x * w  # saves
    return (shifted * scaled).sum()


w = torch.ones(4, requires_grad=True)
score(torch.rand(4), torch.rand(4), w).backward()
a, x = torch.rand(4), torch.rand(4)
loss = score(a, x, w)
x.add_(1)  # overwrites
loss.backward()
