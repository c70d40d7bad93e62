# kind: saved, tensor: y
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = self.b(h)
        return h.sigmoid()  # saves


net = torch.compile(Net(), backend="eager")
with torch.autocast("cpu", torch.bfloat16):
    y = net(torch.rand(3, 4))
    y.mul_(2)  # overwrites
    loss = y.float().sum()
loss.backward()
