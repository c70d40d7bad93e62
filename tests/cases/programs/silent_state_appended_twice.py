# kind: silent-other, tensor: state
import torch

torch.manual_seed(0)
weight = torch.randn(3, requires_grad=True)
state = torch.zeros(3)
history = []
history.append(state)
state.add_(torch.ones(3))  # overwrites
history.append(state)
loss = ((history[1] - history[0]) * weight).sum()
loss.backward()
print("RESULT", loss.item(), weight.grad.norm().item())
