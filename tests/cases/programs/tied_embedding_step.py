# kind: stepped
import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        hidden = self.embed(ids).mean(1)
        return self.head(hidden)  # saves


torch.manual_seed(0)
model = Tied()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
logits = model(torch.randint(0, 11, (3, 4)))
a = logits.logsumexp(1).mean()
b = logits.pow(2).mean()
a.backward(retain_graph=True)
optimizer.step()  # overwrites
b.backward()
