# kind: saved
import threading

import torch
from torch import nn

failures = []


def good(seed):
    torch.manual_seed(seed)
    net = nn.Linear(3, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        opt.zero_grad()
        net(torch.ones(2, 3)).pow(2).mean().backward()
        opt.step()


def bad():
    net = nn.Linear(3, 3)
    y = net(torch.ones(2, 3)).tanh()  # saves
    y += 1  # overwrites
    y.sum().backward()


workers = [threading.Thread(target=good, args=(i,)) for i in range(3)]
workers.append(threading.Thread(target=bad))
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
