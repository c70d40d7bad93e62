# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return x * self.weight

    def project(self):
        self.weight = nn.Parameter(self.weight.data / self.weight.data.norm())  # overwrites


net = Scale()
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
x = torch.randn(6, 4)
for _ in range(4):
    net.project()
    loss = (net(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.project()
print("RESULT", (net(x) - 1).square().mean().item())
