# kind: saved
import torch
import torch.nn.functional as F

torch.manual_seed(0)
table = torch.nn.Parameter(torch.randn(6, 4) * 3)
mix = torch.randn(4, 4, requires_grad=True)
query = (table.mul(1.0) @ mix).sum() + (table @ mix).sum()  # saves
looked = F.embedding(torch.tensor([0, 2, 5]), table, max_norm=1.0)  # overwrites
(query + looked.sum()).backward()
