# kind: silent-other
import torch
from torch import nn

torch.manual_seed(0)


class DiffSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                before = state.get("previous", torch.zeros_like(p))
                friction = torch.sigmoid((before - p.grad).abs())
                state["previous"] = p.grad
                p.add_(p.grad * friction, alpha=-group["lr"])


net = nn.Linear(3, 1)
optimizer = DiffSGD(net.parameters())
x, y = torch.randn(8, 3), torch.randn(8, 1)
for _ in range(4):
    optimizer.zero_grad(set_to_none=False)  # overwrites
    loss = (net(x) - y).square().mean()
    loss.backward()  # overwrites
    optimizer.step()
print("RESULT", loss.item())
