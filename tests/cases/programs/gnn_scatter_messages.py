# kind: saved, tensor: nodes
import torch

torch.manual_seed(0)
features = torch.randn(4, 3, requires_grad=True)
source, target = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0])
nodes = features * 1.0
for _ in range(2):
    messages = nodes.square()[source]  # saves
    nodes.index_add_(0, target, messages * 0.1)  # overwrites
nodes.sum().backward()
