# kind: saved
"""The same beside a write that leaves no trace in the record but a node."""
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
memory = torch.zeros(4, 3)
with torch.no_grad():
    views = [memory[2], memory[:, 1]]
memory += w
y = w.exp()  # saves
torch.ops.aten.add_.Scalar(y, 1.0)  # overwrites
y.sum().backward()
