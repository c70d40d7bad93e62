# kind: shape-dtype
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


def build():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def local_training(global_model, x, y, lr=0.1):
    model = copy.deepcopy(global_model)
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(2):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
    return model


def accumulate(total, client, server):
    for name, data in client.state_dict().items():
        total[name] = total.get(name, 0) + (data - server.state_dict()[name])


def average_shrink(server, total, n_clients, eta):
    for name, data in server.state_dict().items():
        update = total[name] * (eta / n_clients)
        data.add_(update)  # overwrites


server = build()
total = {}
for c in range(3):
    x = torch.randn(12, 5) + 0.2 * c
    y = (x.sum(dim=1) > 0).long()
    accumulate(total, local_training(server, x, y), server)
average_shrink(server, total, n_clients=3, eta=0.9)

loss = F.cross_entropy(server(torch.randn(12, 5)), torch.randint(0, 2, (12,)))
loss.backward()
grads = sum(p.grad.abs().sum() for p in server.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
