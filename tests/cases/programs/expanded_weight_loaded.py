# kind: expanded, tensor: net[1].weight
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3, bias=False))
state = {name: value.clone() for name, value in net.state_dict().items()}
net[1].weight.data = torch.ones(3).expand(3, 3)
net.load_state_dict(state)  # overwrites
net(torch.randn(2, 4)).sum().backward()
print("RESULT", net[0].weight.grad.norm().item())
