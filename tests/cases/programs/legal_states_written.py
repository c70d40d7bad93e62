# kind: legal
import copy

import torch
from torch import nn

torch.manual_seed(0)
clients, server = [nn.Linear(3, 1) for _ in range(3)], nn.Linear(3, 1)
student, teacher, shown = nn.Linear(3, 1), nn.Linear(3, 1), nn.Linear(3, 1)
x = torch.randn(8, 3)


def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


def added(total, networks):
    for network in networks[1:]:
        for name, value in network.state_dict().items():
            total[name] += value
    for name in total:
        total[name] /= len(networks)
    return total


for _ in range(3):
    for client in clients:
        train(client)
    server.load_state_dict(added(copy.deepcopy(clients[0].state_dict()), clients))
    # Each of them loads what it has become, and that is what it is to be.
    server.load_state_dict(added(clients[0].state_dict(), clients))
    for client in clients:
        client.load_state_dict(server.state_dict())
    train(student)
    averaged = teacher.state_dict()
    for name, value in student.state_dict().items():
        averaged[name] *= 0.9
        averaged[name] += 0.1 * value
    shown.load_state_dict(averaged)
print("RESULT", sum(client.weight.norm().item() for client in clients), shown.weight.norm().item())
