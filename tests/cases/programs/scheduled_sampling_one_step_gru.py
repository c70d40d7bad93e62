# kind: saved
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
random.seed(7)


class Encoder(nn.Module):
    def __init__(self, d_in=2, hidden=6):
        super().__init__()
        self.gru = nn.GRU(d_in, hidden, batch_first=True)

    def forward(self, x):
        return self.gru(x)


class Decoder(nn.Module):
    def __init__(self, d_out=2, hidden=6):
        super().__init__()
        self.gru = nn.GRU(d_out, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, d_out)

    def step(self, token, hidden):
        out, hidden = self.gru(token, hidden)  # saves
        return self.fc(out), hidden


class Forecaster(nn.Module):
    def __init__(self, horizon=4):
        super().__init__()
        self.encoder, self.decoder, self.horizon = Encoder(), Decoder(), horizon

    def forward(self, past, future, teacher=0.5):
        _, hidden = self.encoder(past)
        outputs = torch.zeros(past.shape[0], self.horizon + 1, 2)
        outputs[:, 0] = past[:, -1]
        for t in range(1, self.horizon + 1):
            given = future[:, t - 1 : t] if random.random() < teacher and t > 1 else outputs[:, t - 1 : t]
            step, hidden = self.decoder.step(given, hidden)
            outputs[:, t : t + 1] = step  # overwrites
        return outputs[:, 1:]


net = Forecaster()
past, future = torch.randn(3, 5, 2), torch.randn(3, 4, 2)
loss = F.l1_loss(net(past, future), future)
loss.backward()
print(f"RESULT {loss.item():.5f} {net.decoder.fc.weight.grad.abs().sum().item():.5f}")
