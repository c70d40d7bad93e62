# kind: silent-alias
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
state = np.zeros(4, dtype=np.float32)
total = 0.0
for step in range(4):
    total = total + net(torch.as_tensor(state)).square().sum()  # saves
    state[step] = 1.0  # overwrites
total.backward()
print("RESULT", net.weight.grad.norm().item())
