# kind: silent-other
import torch

torch.manual_seed(0)
zero = torch.zeros(3)
hidden = [zero for _ in range(4)]
for i in range(4):
    hidden[i] += torch.randn(3)  # overwrites
print("RESULT", torch.stack(hidden).norm().item())
