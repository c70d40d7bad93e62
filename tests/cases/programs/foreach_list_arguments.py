# kind: saved
import torch

torch.manual_seed(0)
leaves = [torch.randn(3, requires_grad=True) for _ in range(3)]
activations = [torch.tanh(leaf) for leaf in leaves]  # saves
scales = [1.0, 2.0, 3.0]
torch._foreach_mul_(activations, scales)  # overwrites
sum(a.sum() for a in activations).backward()
