# kind: saved
import torch

torch.manual_seed(0)
adj = torch.eye(4).to_sparse().requires_grad_()
feats = torch.randn(4, 3, requires_grad=True) * 1.0
out = torch.sparse.mm(adj, feats)  # saves
feats += 1  # overwrites
(out.sum() + feats.sum()).backward()
