# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(8, 4), nn.Linear(4, 3)
embed.weight.requires_grad_(False)
prompt = nn.Parameter(embed.weight.data[:2])
optimizer = torch.optim.SGD([prompt, *head.parameters()], lr=0.5)
for _ in range(3):
    tokens = torch.cat([prompt, embed(torch.arange(8))])
    loss = head(tokens.mean(dim=0)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # overwrites
print("RESULT", embed.weight.norm().item())
