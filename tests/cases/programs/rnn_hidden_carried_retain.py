# kind: stepped
import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, token, h):
        h = self.cell(self.embed(token), h)  # saves
        return self.out(h), h


torch.manual_seed(0)
model = CharRNN(11, 16)
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
h = torch.zeros(2, 16)
tokens = torch.randint(0, 11, (6, 2))
for t in range(5):
    logits, h = model(tokens[t], h)
    loss = criterion(logits, tokens[t + 1])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()  # overwrites
