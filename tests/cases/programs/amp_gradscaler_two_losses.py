# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()])
scaler = torch.amp.GradScaler("cpu", enabled=False)
features = torch.tanh(body(torch.randn(3, 4)))
loss_a, loss_b = head(features).mean(), head(features).pow(2).mean()  # saves
scaler.scale(loss_a).backward(retain_graph=True)
scaler.step(optimizer)  # overwrites
scaler.update()
scaler.scale(loss_b).backward()
