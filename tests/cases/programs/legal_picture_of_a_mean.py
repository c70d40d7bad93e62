# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
features, head = nn.Linear(4, 6), nn.Linear(6, 2)
for _ in range(2):
    h = features(torch.randn(5, 4))
    picture = h.detach().mean(dim=1).numpy()
    picture -= picture.min()
    picture /= picture.max()
    loss = head(h.mean(dim=0)).square().sum()
    loss.backward()
print("RESULT", features.weight.grad.norm().item())
