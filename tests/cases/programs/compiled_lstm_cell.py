# kind: legal
import torch
from torch import nn

torch.manual_seed(0)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(7, 16)

    def forward(self, x, h, c):
        i, f, g, o = self.lin(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, c, (h * h).sum()


cell = torch.compile(Cell(), backend="aot_eager")
h = c = torch.zeros(2, 4)
keep = torch.tensor([[1.0], [0.0]])
total = 0
for x in torch.rand(3, 2, 3):
    h, c, cost = cell(x, h, c)
    total = total + cost
    h = h * keep
total.backward()
