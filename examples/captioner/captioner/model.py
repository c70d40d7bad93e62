"""The captioner itself."""

from torch import nn

from .layers import Encoder, GatedAttention


class Captioner(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.encoder = Encoder(width)
        self.attend = GatedAttention(width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, images, words):
        embedded = self.embed(words)
        context, gate = self.attend(embedded, self.encoder(images))
        return self.decode(embedded, context, gate)

    def decode(self, embedded, context, gate):
        gate[:, 0] = 0.0  # the first word has seen nothing yet
        hidden, _ = self.rnn(embedded + context)
        return self.head(hidden + (1 - gate) * embedded)
