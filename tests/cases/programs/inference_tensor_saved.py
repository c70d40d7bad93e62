# kind: inference, tensor: target
import torch
from torch import nn

torch.manual_seed(0)
teacher, student = nn.Linear(3, 3), nn.Linear(3, 3)
x = torch.randn(2, 3)
with torch.inference_mode():
    target = teacher(x)
loss = (student(x) * target).sum()  # overwrites
loss.backward()
