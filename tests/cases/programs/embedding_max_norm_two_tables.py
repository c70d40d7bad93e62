# kind: saved
import torch
import torch.nn.functional as F

torch.manual_seed(0)
table = torch.nn.Parameter(torch.randn(7, 4) * 5)
other = torch.randn(4, 7, requires_grad=True)
score = table @ other  # saves
picked = F.embedding(torch.tensor([0, 3]), table, max_norm=1.0)  # overwrites
(score.sum() + picked.sum()).backward()
