# kind: legal
import copy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))


def train(model, *optimizers):
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()


# A new head: trained by an optimizer of its own, handed over, or made before the optimizer.
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
body = torch.optim.SGD(net.parameters(), lr=0.1)
net[2] = nn.Linear(6, 3)
train(net, body, torch.optim.SGD(net[2].parameters(), lr=0.1))
net[2] = nn.Linear(6, 3)
body.add_param_group({"params": net[2].parameters()})
train(net, body)
net[2] = nn.Linear(6, 3)
train(net, torch.optim.Adam(net.parameters()))

# Workers that hand their gradients to a shared model, which itself computes nothing.
shared, worker = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
for _ in range(3):
    worker.load_state_dict(shared.state_dict())
    worker.zero_grad(set_to_none=False)
    nn.functional.cross_entropy(worker(x), y).backward()
    for ours, theirs in zip(shared.parameters(), worker.parameters()):
        ours._grad = theirs.grad
    optimizer.step()

# Projected descent by hand: each round begins with a leaf of its own.
noise = torch.zeros(4, requires_grad=True)
for _ in range(3):
    nn.functional.cross_entropy(worker(x + noise), y).backward()
    noise = (noise + 0.1 * noise.grad.sign()).detach().requires_grad_()

# One tensor in two lists, or twice in one, is fine while nobody writes it; and so is a new one each time.
zeros = torch.zeros(4)
zeros += 1
first, second = [], []
for _ in range(3):
    first.append(zeros)
    state = torch.zeros(4)
    state += 1
    second.append(state)
    second.append(zeros)

# Two views of one set of weights, both meant to change.
twin = copy.copy(worker)
train(worker, torch.optim.SGD(worker.parameters(), lr=0.1))
print("RESULT", torch.stack(first + second).sum().item(), twin(x).sum().item())
