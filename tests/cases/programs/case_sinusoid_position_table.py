# kind: leaf-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)


def fill_sinusoid(n_pos, dim, table):
    pos = torch.arange(n_pos, dtype=torch.float32).unsqueeze(1)
    theta = pos / torch.pow(10000.0, 2 * torch.arange(dim // 2, dtype=torch.float32) / dim)
    table[:, 0::2] = torch.sin(theta)  # overwrites
    table[:, 1::2] = torch.cos(theta)


class Embeddings(nn.Module):
    def __init__(self, vocab, dim, max_len):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.position = nn.Embedding(max_len, dim)
        fill_sinusoid(max_len, dim, self.position.weight)
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        pos = torch.arange(ids.shape[1]).expand_as(ids)
        return self.norm(self.word(ids) + self.position(pos))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = Embeddings(30, 16, 12)
        self.enc = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 2)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids)).mean(dim=1))


model = Classifier()
ids, y = torch.randint(0, 30, (4, 9)), torch.randint(0, 2, (4,))
loss = F.cross_entropy(model(ids), y)
loss.backward()
grads = sum(p.grad.abs().sum() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
