# kind: silent-data
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
shared = np.ones((3, 4), dtype=np.float32)
inputs, scratch = torch.from_numpy(shared), torch.from_numpy(shared)
loss = net(inputs).square().mean()  # saves
scratch.mul_(2)  # overwrites
loss.backward()
print("RESULT", net.weight.grad.norm().item())
