# kind: saved, tensor: logits
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 6)
logits = torch.exp(  # saves
    net(
        torch.randn(3, 6),
    )
)
logits += (  # overwrites
    torch.randn(3, 6)
    * 0.1
)
logits.sum().backward()
