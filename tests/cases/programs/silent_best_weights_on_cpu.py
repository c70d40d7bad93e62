# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.5)
x, y = torch.randn(8, 3), torch.randn(8, 1)
best, best_loss = None, 1e9
for _ in range(4):
    loss = (net(x) - y).square().mean()
    if loss.item() < best_loss:
        best_loss = loss.item()
        best = {k: v.cpu() for k, v in net.state_dict().items()}
    opt.zero_grad()
    loss.backward()
    opt.step()  # overwrites
net.load_state_dict(best)
print("RESULT", (net(x) - y).square().mean().item())
