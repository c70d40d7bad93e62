# kind: silent-other
import torch

torch.manual_seed(0)
counts = torch.zeros(4)
seen = torch.tensor([1, 1, 3])
values = torch.randn(3, requires_grad=True)
counts[seen] = counts[seen] + values  # overwrites
loss = counts.square().sum()
loss.backward()
print("RESULT", loss.item(), values.grad.norm().item())
