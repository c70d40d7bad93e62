# kind: legal
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.1, inplace=True)
        self.fc = nn.Linear(4 * 16, 2)
        nn.init.zeros_(self.fc.bias)
        nn.init.kaiming_normal_(self.fc.weight)

    def forward(self, x):
        y = self.relu(self.bn(self.conv(x)))
        y = y + x.mean()
        y *= 2
        y += 1
        y[:, 0] = 0
        y = F.leaky_relu(y, inplace=True)
        return self.fc(self.drop(y.flatten(1) + 0))


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
running = torch.zeros(())
for _ in range(3):
    out = net(torch.randn(2, 3, 4, 4))
    loss = F.cross_entropy(out, torch.tensor([0, 1]))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    for p in net.parameters():
        p.grad.mul_(0.5)
    opt.step()
    running += loss.detach()
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-1, 1)
print("RESULT", running.item())
