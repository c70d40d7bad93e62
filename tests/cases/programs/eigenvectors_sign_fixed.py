# kind: saved, tensor: vectors
import torch

torch.manual_seed(0)
a = torch.randn(4, 4, requires_grad=True)
values, vectors = torch.linalg.eigh(a + a.t())  # saves
vectors *= torch.sign(vectors.detach()[0])  # overwrites
(values + vectors.sum(0)).sum().backward()
