# kind: saved
import torch

torch.manual_seed(0)
indices = torch.tensor([[0, 1, 2], [1, 0, 2]])
weights = torch.randn(3, requires_grad=True)
adjacency = torch.sparse_coo_tensor(indices, weights.exp(), (3, 3), is_coalesced=True)
features = torch.randn(3, 4, requires_grad=True) * 1
out = torch.sparse.mm(adjacency, features)  # saves
features += 1.0  # overwrites
out.sum().backward()
