# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
x = torch.randn(2, 3)
outputs = {"probs": net(x).softmax(-1), "levels": [net(x).exp()]}  # saves
outputs["probs"] *= 0.5  # overwrites
outputs["levels"][0] += 1  # overwrites
(outputs["probs"].sum() + outputs["levels"][0].sum()).backward()
