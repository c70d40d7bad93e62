# kind: saved, since torch 2.10
import torch

torch.manual_seed(0)
adj = torch.eye(4).to_sparse().coalesce()
feats = torch.randn(4, 3, requires_grad=True)
out = torch.sparse.mm(adj, feats)  # saves
adj.mul_(2.0)  # overwrites
out.sum().backward()
