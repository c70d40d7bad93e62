# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(1)


class BiasedAttention(nn.Module):
    def __init__(self, dim, heads, pair_dim):
        super().__init__()
        self.heads, self.c = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.pair = nn.Linear(pair_dim, heads, bias=False)
        self.out = nn.Linear(dim, dim)

    def split(self, t):
        return t.view(*t.shape[:2], self.heads, self.c).transpose(1, 2)

    def forward(self, x, pair, padding):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        biases = [self.pair(pair).permute(0, 3, 1, 2), 0.1 * torch.eye(x.shape[1])]
        a = torch.matmul(q, k.transpose(-1, -2))
        a *= self.c ** -0.5
        for b in biases:
            a += b
        a.masked_fill_(padding[:, None, None, :], float("-inf"))
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(1, 2).flatten(2)
        return self.out(o)


layer = BiasedAttention(12, 3, 5)
x, pair = torch.randn(2, 6, 12), torch.randn(2, 6, 6, 5)
padding = torch.zeros(2, 6, dtype=torch.bool)
padding[1, 4:] = True
loss = layer(x, pair, padding).pow(2).mean()
loss.backward()
grads = sum(p.grad.abs().sum() for p in layer.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
