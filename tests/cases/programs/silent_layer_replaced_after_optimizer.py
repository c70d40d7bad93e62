# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.head = nn.Linear(6, 3)  # overwrites
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print("RESULT", nn.functional.cross_entropy(net(x), y).item(), net.head.weight.norm().item())
