# kind: saved, tensor: prob
import threading

import torch
from torch import nn


def prepare(out):
    w = torch.randn(3, requires_grad=True)
    (w * 2).sum().backward()
    out.append(w.grad)


collected = []
thread = threading.Thread(target=prepare, args=(collected,))
thread.start()
thread.join()
net = nn.Linear(3, 2)
z = net(collected[0][None])
prob = z.softmax(-1)  # saves
z2 = prob.log()  # saves
prob += 1e-6  # overwrites
z2.sum().backward()
