# kind: saved
import math
import torch
import torch.nn as nn

torch.manual_seed(0)


class SelfAttention(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, pad):
        att = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) / math.sqrt(x.size(-1))
        att = torch.softmax(att, dim=-1)  # saves
        att.masked_fill_(pad.unsqueeze(1), 0.0)  # overwrites
        att = att / (att.sum(-1, keepdim=True) + 1e-6)
        return torch.bmm(att, self.v(x))


net = SelfAttention()
pad = torch.zeros(2, 5, dtype=torch.bool)
pad[1, 3:] = True
loss = net(torch.randn(2, 5, 8), pad).pow(2).mean()
loss.backward()
