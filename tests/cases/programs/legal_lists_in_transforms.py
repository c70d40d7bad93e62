# kind: legal
"""Tensors that have no address, of torch.func, or no shape, of nested ones: kept, copied and written like all others."""

import torch
from torch.func import grad, vmap


def rolled(x):
    state = x.clone()
    still, pairs = [], []
    for t in range(4):
        state[0] += t
        still.append(state[1])
        pairs.append((state[1], t))
        state[1].copy_(state[1])
    return sum(still) + pairs[-1][0] + state.sum()


print(grad(rolled)(torch.ones(3)), vmap(grad(rolled))(torch.ones(2, 3)), vmap(rolled)(torch.ones(2, 3)))

def turned(x, index):
    z = torch.complex(x, x) * 1
    z.real = x * 2
    z.imag += 1
    y = x * 1
    y[index] += 1
    return (z.real * z.imag).sum() + y.sum()


index = torch.tensor([0, 2])
print(grad(turned)(torch.ones(3), index), vmap(turned, (0, None))(torch.ones(2, 3), index))
print(vmap(turned)(torch.ones(2, 3), torch.tensor([[0, 1], [1, 2]])))

ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
for _ in range(2):
    ragged.mul_(2.0)
    last = [ragged, ragged.detach()]
    ragged.copy_(ragged)
print(last[0].unbind()[1])
