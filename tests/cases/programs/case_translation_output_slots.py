# kind: legal
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim)

    def forward(self, src):
        return self.rnn(self.emb(src))[1][0]


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, token, hidden):
        hidden = self.cell(self.emb(token), hidden)
        return self.out(hidden), hidden


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, vocab):
        super().__init__()
        self.encoder, self.decoder, self.vocab = encoder, decoder, vocab

    def forward(self, src, trg, teacher_forcing):
        outputs = torch.zeros(trg.shape[0], trg.shape[1], self.vocab)
        hidden = self.encoder(src)
        token = trg[0]
        for t in range(1, trg.shape[0]):
            output, hidden = self.decoder(token, hidden)
            outputs[t] = output
            token = trg[t] if teacher_forcing[t] else output.argmax(dim=1)
        return outputs


model = Seq2Seq(Encoder(20, 10), Decoder(15, 10), 15)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
src, trg = torch.randint(0, 20, (6, 4)), torch.randint(0, 15, (5, 4))
for _ in range(2):
    outputs = model(src, trg, [True, True, False, True, False])
    loss = F.cross_entropy(outputs[1:].flatten(0, 1), trg[1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
grads = sum(p.grad.abs().sum() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
