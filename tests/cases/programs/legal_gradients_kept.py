# kind: legal
"""Gradients that are new ones, copies, read before they change, or meant to be added up."""
import torch
from torch import nn

torch.manual_seed(0)
net, x = nn.Linear(3, 2), torch.randn(8, 3)


class Momentum(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["gradient"] = p.grad
            state["sum"] = 0.9 * state.get("sum", torch.zeros_like(p)) + state["gradient"]
            p.add_(state["sum"], alpha=-0.1)


optimizer = Momentum(net.parameters())
fresh, copied, norms = [], [], []
for column in (0, 1, 0):
    optimizer.zero_grad()
    net(x)[:, column].square().mean().backward()
    fresh.append([p.grad for p in net.parameters()])
    optimizer.step()
for column in (0, 1, 0):
    optimizer.zero_grad(set_to_none=False)
    net(x)[:, column].square().mean().backward()
    copied.append([p.grad.clone() for p in net.parameters()])
    gradients = [p.grad for p in net.parameters()]
    norms.append(torch.stack([g.norm() for g in gradients]).norm())
    nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    optimizer.step()
for part in x.split(2):
    net(part).square().mean().backward()
    total = net.weight.grad
print("RESULT", sum(norms).item(), total.norm().item(), fresh[0][0].norm().item(), copied[1][0].norm().item())
