# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(4)


def rescale(x, low, high):
    y = x * (high - low)
    y.add_(low)
    return y


class Head(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.offset = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        z = rescale(self.fc(x), -1.0, 3.0)
        z -= self.offset
        z /= 2.0
        return z


model = Head(5)
x = torch.randn(8, 5, requires_grad=True)
z = model(x)
loss = z.sum() + z.abs().mean()
loss.backward()
grads = sum(p.grad.abs().sum() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f} {x.grad.abs().sum().item():.5f}")
