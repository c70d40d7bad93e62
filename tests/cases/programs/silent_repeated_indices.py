# kind: silent-other
import torch

torch.manual_seed(0)
messages = torch.randn(6, 3, requires_grad=True)
receivers = torch.tensor([0, 2, 2, 1, 2, 0])
nodes = torch.zeros(4, 3)
nodes[receivers] += messages  # overwrites
loss = nodes.square().sum()
loss.backward()
print("RESULT", loss.item(), messages.grad.norm().item())
