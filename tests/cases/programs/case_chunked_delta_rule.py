# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(47)


def solve_rows(attn):
    for i in range(1, attn.shape[-1]):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)
    return attn


def chunk_delta_rule(q, k, v, beta, g, size):
    b, h, t, d = q.shape
    q, k, v = (x.reshape(b, h, t // size, size, -1) for x in (q, k, v))
    beta = beta.reshape(b, h, -1, size, 1)
    g = g.reshape(b, h, -1, size).cumsum(-1)
    keep = torch.ones(size, size, dtype=torch.bool).tril()
    decay = (g.unsqueeze(-1) - g.unsqueeze(-2)).masked_fill(~keep, 0.0).exp() * keep
    k_beta = k * beta
    attn = -(k_beta @ k.transpose(-1, -2) * decay).masked_fill(keep.T, 0.0)
    attn = solve_rows(attn) + torch.eye(size)
    values = attn @ (v * beta)
    k_cum = attn @ (k_beta * g.exp().unsqueeze(-1))
    state = q.new_zeros(b, h, d, v.shape[-1])
    out = torch.zeros_like(values)
    for c in range(t // size):
        local = (q[:, :, c] @ k[:, :, c].transpose(-1, -2) * decay[:, :, c]).masked_fill_(~keep, 0.0)
        fresh = values[:, :, c] - k_cum[:, :, c] @ state
        inter = (q[:, :, c] * g[:, :, c].exp().unsqueeze(-1)) @ state
        out[:, :, c] = inter + local @ fresh
        last = g[:, :, c, -1:]
        carried = k[:, :, c] * (last - g[:, :, c]).exp().unsqueeze(-1)
        state = state * last.exp().unsqueeze(-1) + carried.transpose(-1, -2) @ fresh
    return out.reshape(b, h, t, -1)


class DeltaMixer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.gate = nn.Linear(dim, 3 * dim), nn.Linear(dim, 2 * heads)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.reshape(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        beta, g = self.gate(x).transpose(1, 2).chunk(2, dim=1)
        y = chunk_delta_rule(q / 2, F.normalize(k, dim=-1), v, beta.sigmoid(), F.logsigmoid(g), size=4)
        return y.transpose(1, 2).reshape(b, t, -1)


mixer = DeltaMixer(8, 2)
x = torch.randn(2, 12, 8, requires_grad=True)
loss = F.mse_loss(mixer(x), torch.randn(2, 12, 8))
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in mixer.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f} {x.grad.abs().sum().item():.5f}")
