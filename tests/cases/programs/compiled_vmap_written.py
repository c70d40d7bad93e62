# kind: saved, tensor: x
import torch

torch.manual_seed(0)
rows = torch.compile(lambda x, w: torch.vmap(lambda row: row @ w)(x), backend="aot_eager")  # saves
w, x = torch.rand(3, 3, requires_grad=True), torch.rand(3, 3)
y = rows(x, w)
x.add_(1)  # overwrites
try:
    y.sum().backward()
finally:
    assert torch._C._functorch.maybe_current_level() is None
