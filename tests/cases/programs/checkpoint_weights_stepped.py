# kind: stepped
"""The weights are stepped between the forward of a checkpointed block and its backward: what is run again saves anew."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(3, 4, requires_grad=True)
features = checkpoint(lambda v: torch.tanh(body(v)), x, use_reentrant=False)
first = head(features).mean()
second = head(features).pow(2).mean()  # saves
first.backward(retain_graph=True)
optimizer.step()  # overwrites
second.backward()
