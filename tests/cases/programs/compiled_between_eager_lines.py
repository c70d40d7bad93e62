# kind: saved, tensor: p
import torch

torch.manual_seed(0)
w = torch.randn(3, 3, requires_grad=True)


@torch.compile(backend="aot_eager")
def squash(x):
    return torch.tanh(x).sum()


h = torch.randn(2, 3) @ w
p = h.exp()  # saves
loss = squash(h) + p.sum()
with torch.no_grad():
    p.clamp_(max=2.0)  # overwrites
h = p
loss.backward()
