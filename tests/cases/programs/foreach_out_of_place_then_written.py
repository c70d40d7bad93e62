# kind: saved
import torch

torch.manual_seed(0)
ws = [torch.randn(3, requires_grad=True) for _ in range(2)]
scales = [torch.rand(3), torch.rand(3)]
scaled = torch._foreach_mul(ws, scales)  # saves
scales[1].add_(1.0)  # overwrites
torch.stack(scaled).sum().backward()
