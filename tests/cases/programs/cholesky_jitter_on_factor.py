# kind: saved, tensor: factor
import torch

torch.manual_seed(0)
root = torch.randn(3, 3, requires_grad=True)
cov = root @ root.t() + torch.eye(3)
factor = torch.linalg.cholesky(cov)  # saves
factor.diagonal().add_(1e-3)  # overwrites
factor.logdet().backward()
