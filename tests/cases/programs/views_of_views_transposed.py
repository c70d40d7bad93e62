# kind: saved, tensor: gate
import torch

torch.manual_seed(0)
x = torch.randn(4, 6, requires_grad=True)
y = x * 1.5
gate = torch.sigmoid(y)  # saves
block = gate.t()[1:4].unsqueeze(0)
block.squeeze(0)[:, 0].zero_()  # overwrites
(gate * y.detach()).sum().backward()
