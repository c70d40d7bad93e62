# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
skipped = 0
for step in range(3):
    y = w.exp()  # saves
    if step == 1:
        y += 1  # overwrites
    try:
        y.sum().backward()
    except RuntimeError:
        skipped += 1
print("RESULT", skipped)
