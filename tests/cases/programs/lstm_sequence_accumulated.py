# kind: stepped
import torch
from torch import nn

torch.manual_seed(3)
lstm = nn.LSTM(5, 7, batch_first=True)
head = nn.Linear(7, 1)
params = list(lstm.parameters()) + list(head.parameters())
opt = torch.optim.SGD(params, lr=0.1)
state = None
total = 0
for chunk in torch.randn(4, 3, 6, 5).unbind(0):
    out, state = lstm(chunk, state)  # saves
    loss = head(out[:, -1]).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()  # overwrites
    total += loss.item()
print(total)
