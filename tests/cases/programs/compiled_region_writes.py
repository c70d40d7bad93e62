# kind: saved, tensor: acc
import torch

torch.manual_seed(0)


@torch.compile(backend="aot_eager")
def bump(acc, x):
    acc.add_(x)  # overwrites


w = torch.randn(4, requires_grad=True)
acc = torch.zeros(4)
loss = (w * acc).sum()  # saves
bump(acc, torch.ones(4))
loss.backward()
