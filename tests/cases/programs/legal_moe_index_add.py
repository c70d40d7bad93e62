# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(0)


class MoE(nn.Module):
    def __init__(self, d=4, n=3):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

    def forward(self, x):
        w = self.gate(x).softmax(-1)
        top, idx = w.max(-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (idx == e).nonzero().squeeze(-1)
            out.index_add_(0, rows, expert(x[rows]) * top[rows].unsqueeze(-1))
        return out


net = MoE()
loss = net(torch.randn(6, 4)).pow(2).sum()
loss.backward()
