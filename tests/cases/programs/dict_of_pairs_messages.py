# kind: saved
"""Messages between nodes, in a dict by pairs."""

import torch


def propagate(unary, pairwise, edges, rounds=2):
    messages = {}
    for i, j in edges:
        messages[i, j] = torch.ones(2)
        messages[j, i] = torch.ones(2)
    beliefs = {}
    for _ in range(rounds):
        for (i, j), message in messages.items():
            incoming = unary[i] * 1
            for (k, target), other in messages.items():
                if target == i and k != j:
                    incoming *= other  # saves
            new = incoming @ pairwise
            message.copy_(new / new.sum())  # overwrites
    for node in range(len(unary)):
        beliefs[node] = unary[node] * 1
        for (_, target), message in messages.items():
            if target == node:
                beliefs[node] = beliefs[node] * message
    return beliefs


torch.manual_seed(0)
unary = torch.rand(3, 2, requires_grad=True)
pairwise = torch.rand(2, 2, requires_grad=True)
beliefs = propagate(unary, pairwise, [(0, 1), (1, 2)])
loss = sum(b[0] / b.sum() for b in beliefs.values())
loss.backward()
