# kind: saved, tensor: labels
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
labels = torch.tensor([0, 2, -100])
loss = F.cross_entropy(net(torch.randn(3, 4)), labels)  # saves
labels[labels == -100] = 0  # overwrites
loss.backward()
