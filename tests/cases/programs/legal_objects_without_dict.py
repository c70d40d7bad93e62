# kind: legal
"""Objects that hold no attributes of their own, and answer for them with whatever `__getattr__` raises."""

import torch


class Options(dict):
    __slots__ = ()
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Loud:
    __slots__ = ("states",)

    def __init__(self):
        self.states = []

    def __getattr__(self, name):
        raise SystemExit(f"asked for {name}")

    def keep(self, state):
        self.states.append(state)


class Times:
    def __rmul__(self, other):
        return self


class Lazy:
    @property
    def __class__(self):
        raise SystemExit("asked for its class")

    def __setitem__(self, key, value):
        pass


torch.manual_seed(0)
options, loud = Options(steps=0, scale=torch.ones(2)), Loud()
weight = torch.rand(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
state = torch.zeros(2)
for _ in range(3):
    options.steps += 1
    options.scale *= 0.5
    state += options.scale
    loud.keep(state.clone())
    optimizer.zero_grad()
    (weight * loud.states[-1]).sum().backward()
    optimizer.step()
print(options.steps, weight, type([state] * Times()))
Lazy()["state"] = state
