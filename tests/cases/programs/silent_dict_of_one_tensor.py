# kind: silent-other
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
totals = dict.fromkeys(["a", "b", "c"], torch.zeros(3))
for factor, name in enumerate("abc", 1):
    totals[name] += factor * w  # overwrites
loss = sum(index * total.sum() for index, total in enumerate(totals.values()))
loss.backward()
print("RESULT", loss.item(), w.grad.norm().item())
