# kind: multi-view
import torch
from torch import nn


class Penalty:
    def __init__(self):
        self.weights = []

    def add(self, weights):
        self.weights.extend(weights)

    def __call__(self):
        return sum(weight.square().sum() for weight in self.weights)


torch.manual_seed(0)
net, penalty = nn.Linear(4, 2), Penalty()
penalty.add([net.bias])
penalty.add(net.weight)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(5, 4)).mean() + penalty()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # overwrites
print("RESULT", loss.item())
