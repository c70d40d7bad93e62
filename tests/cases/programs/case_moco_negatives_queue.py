# kind: saved
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MoCo(nn.Module):
    def __init__(self, base, dim=8, K=32, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = base
        self.encoder_k = copy.deepcopy(base)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        self.queue[:, ptr:ptr + n] = keys.T  # overwrites
        self.queue_ptr[0] = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue)  # saves
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        self._dequeue_and_enqueue(k)
        return logits, torch.zeros(len(logits), dtype=torch.long)


model = MoCo(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8)))
total = 0.0
for step in range(3):
    view = torch.randn(4, 10)
    logits, labels = model(view + 0.1 * torch.randn(4, 10), view)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    total += loss.item()
grads = sum(p.grad.abs().sum().item() for p in model.encoder_q.parameters())
print(f"RESULT {total:.5f} {grads:.5f}")
