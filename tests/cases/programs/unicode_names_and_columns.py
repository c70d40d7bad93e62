# kind: saved, tensor: σ
import torch

torch.manual_seed(0)
μ = torch.zeros(3, requires_grad=True); σ = torch.exp(μ + 1)  # saves
größe = "größer"; σ += len(größe)  # overwrites
(μ + σ * torch.randn(3)).sum().backward()
