# kind: silent-other
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 1)
opt = torch.optim.SGD(body.parameters(), lr=0.5)
x = torch.randn(2, 3, requires_grad=True)
for reentrant in (False, True):
    features = checkpoint(body, x, use_reentrant=reentrant)  # saves
    loss = head(features).square().mean()
    body(torch.randn(2, 3)).sum().backward()
    opt.step()  # overwrites
    loss.backward()
print("RESULT", x.grad.norm().item())
