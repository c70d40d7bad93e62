# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(5, requires_grad=True)
values, indices = torch.empty(5), torch.empty(5, dtype=torch.long)
torch.sort(torch.randn(5), out=(values, indices))
y = values * w  # saves
torch.sort(torch.randn(5), out=(values, indices))  # overwrites
y.sum().backward()
