# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(10, 6)
query = nn.Linear(4, 6)
optimizer = torch.optim.Adam([*table.parameters(), *query.parameters()], lr=1e-2)


def renormalise():
    norms = table.weight.data.norm(dim=1, keepdim=True)
    table.weight.data.div_(norms.clamp_min(1e-6))  # overwrites


for _ in range(3):
    scores = query(torch.randn(7, 4)) @ table.weight.t()  # saves
    renormalise()
    loss = torch.logsumexp(scores, 1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item(), query.weight.grad.norm().item())
