# kind: silent-other, tensor: module.weight
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


def init_weights(module, std=0.01):
    if isinstance(module, nn.ConvTranspose1d):
        module.weight.data.normal_(0.0, std)  # overwrites


class Upsampler(nn.Module):
    def __init__(self, channels=(8, 4, 2)):
        super().__init__()
        self.before = weight_norm(nn.Conv1d(3, 8, 3, padding=1))
        pairs = zip(channels, channels[1:])
        self.ups = nn.ModuleList(weight_norm(nn.ConvTranspose1d(a, b, 4, 2, padding=1)) for a, b in pairs)
        self.ups.apply(init_weights)

    def forward(self, x):
        x = self.before(x)
        for up in self.ups:
            x = up(nn.functional.leaky_relu(x, 0.1))
        return x


torch.manual_seed(0)
net = Upsampler()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(2, 3, 5)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", loss.item())
