# kind: silent-other
import torch

torch.manual_seed(0)
state = torch.zeros(3)
history = {}
for t in range(4):
    state.add_(torch.randn(3))  # overwrites
    history[t] = state
print("RESULT", torch.stack(list(history.values())).norm().item())
