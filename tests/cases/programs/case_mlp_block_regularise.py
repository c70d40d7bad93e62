# kind: saved
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)


class Block(nn.Module):
    inplace = True

    def __init__(self, d_in, d_out, p):
        super().__init__()
        self.linear = nn.Linear(d_in, d_out)
        self.p = p

    def activate(self, x):
        return F.relu(x, inplace=self.inplace)  # saves

    def regularise(self, x):
        return F.dropout(x, self.p, self.training, inplace=self.inplace)  # overwrites

    def forward(self, x):
        return self.regularise(self.activate(self.linear(x)))


class NormedBlock(Block):
    def __init__(self, d_in, d_out, p):
        super().__init__(d_in, d_out, p)
        self.norm = nn.LayerNorm(d_in)

    def forward(self, x):
        return super().forward(self.norm(x))


class MLP(nn.Sequential):
    def __init__(self, dims, p):
        layers = [NormedBlock(a, b, p) for a, b in zip(dims[:-2], dims[1:-1])]
        super().__init__(*layers, nn.Linear(dims[-2], dims[-1]))


model = MLP([12, 24, 24, 3], p=0.5)
x, y = torch.randn(16, 12), torch.randint(0, 3, (16,))
loss = F.cross_entropy(model(x), y)
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
