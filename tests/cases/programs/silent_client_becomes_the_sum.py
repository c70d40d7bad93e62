# kind: silent-other
import torch
from torch import nn


class Client:
    def __init__(self, shift):
        self.net, self.x = nn.Linear(3, 1), torch.randn(8, 3) + shift

    def train(self):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        optimizer.zero_grad()
        self.net(self.x).square().mean().backward()
        optimizer.step()


def average(networks):
    total = networks[0].state_dict()
    for network in networks[1:]:
        for name, value in network.state_dict().items():
            total[name] += value  # overwrites
    for name in total:
        total[name].div_(len(networks))  # overwrites
    return total


torch.manual_seed(0)
clients, server = [Client(shift) for shift in (-1.0, 0.0, 1.0)], nn.Linear(3, 1)
for _ in range(3):
    for client in clients:
        client.train()
    server.load_state_dict(average([client.net for client in clients]))
print("RESULT", sum(client.net.weight.norm().item() for client in clients), server.weight.norm().item())
