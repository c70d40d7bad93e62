# kind: saved, tensor: q
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
proj = nn.Linear(4, 4)
x = torch.randn(1, 2, 3, 4)
q, k, v = proj(x), proj(x), proj(x)
out = F.scaled_dot_product_attention(q, k, v)  # saves
q *= 0.5  # overwrites
(out.sum() + q.sum()).backward()
