# kind: out-arg
import torch
import torch.nn as nn

torch.manual_seed(7)


class BiasedAttention(nn.Module):
    def __init__(self, d=6, length=4):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.register_buffer("scratch", torch.empty(2, length, length))
        self.bias = nn.Parameter(torch.zeros(length, length))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        torch.baddbmm(self.bias, q, k.transpose(1, 2), out=self.scratch)  # overwrites
        return self.scratch.softmax(-1) @ v


net = BiasedAttention()
loss = net(torch.randn(2, 4, 6)).square().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {net.bias.grad.abs().sum().item():.5f}")
