# kind: saved
import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.theta = nn.Parameter(torch.randn(width, width) * 0.3)

    def forward(self, nodes, adjacency):
        return torch.relu(adjacency @ (nodes @ self.theta))  # saves


class STBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.temporal = nn.Conv2d(width, width, (1, 2))
        self.spatial = GraphConv(width)

    def forward(self, x, adjacency):
        h = self.temporal(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1)
        for b in range(h.size(0)):
            for t in range(h.size(1)):
                h[b][t] = self.spatial(h[b][t], adjacency)  # overwrites
        return h


class Forecaster(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.block = STBlock(width)
        self.head = nn.Linear(width, 1)

    def forward(self, x, adjacency):
        return self.head(self.block(x, adjacency)).mean(1)


torch.manual_seed(1)
model = Forecaster()
adjacency = torch.softmax(torch.randn(5, 5), 1)
x, y = torch.randn(2, 4, 5, 4), torch.randn(2, 5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    optimizer.zero_grad()
    loss = ((model(x, adjacency) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
