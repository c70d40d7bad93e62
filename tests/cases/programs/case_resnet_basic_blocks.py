# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(40)


def conv3x3(c_in, c_out, stride=1):
    return nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(c_in, c_out, stride), nn.BatchNorm2d(c_out)
        self.conv2, self.bn2 = conv3x3(c_out, c_out), nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        out = self.relu(out)
        return out


class ResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem, self.stem_bn = conv3x3(3, 8), nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2), BasicBlock(16, 16))
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu_(self.stem_bn(self.stem(x)))
        return self.fc(self.blocks(x).mean(dim=(2, 3)))


model = ResNet()
for step in range(2):
    x, y = torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))
    loss = F.cross_entropy(model(x), y)
    loss.backward()
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
