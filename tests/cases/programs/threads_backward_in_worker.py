# kind: stepped
import threading

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(2, 3, requires_grad=True)


def train():
    loss = net(x).pow(2).sum()  # saves
    optimizer.step_count = 0
    net.weight.grad = torch.ones_like(net.weight)
    optimizer.step()  # overwrites
    loss.backward()


worker = threading.Thread(target=train)
worker.start()
worker.join()
