# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
lstm = nn.LSTM(3, 4, batch_first=True)
h, c = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
total = 0
for chunk in torch.randn(3, 2, 5, 3):
    out, (h, c) = lstm(chunk, (h, c))
    total = total + out.mean()
    h[:, 0].zero_()
    c[:, 0].zero_()
total.backward()
