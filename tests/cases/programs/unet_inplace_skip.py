# kind: saved
import torch
import torch.nn as nn


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return torch.sigmoid(self.conv2(self.act(self.conv1(x))))  # saves


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = DoubleConv(1, 4)
        self.down2 = DoubleConv(4, 8)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.act = nn.ReLU(inplace=True)
        self.final = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        skip = self.down1(x)
        y = self.up(self.down2(self.pool(skip)))  # saves
        skip += y  # overwrites
        return self.final(self.act(skip))  # overwrites


torch.manual_seed(0)
net = UNet()
loss = net(torch.randn(1, 1, 8, 8)).mean()
loss.backward()
