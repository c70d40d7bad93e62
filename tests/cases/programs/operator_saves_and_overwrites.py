# kind: saved
"""Both happen inside the operator, which autograd records: its own lines are to be named."""
import torch

library = torch.library.Library("outplace_cases_inside", "DEF")
library.define("exp_twice_(Tensor(a!) x) -> Tensor")


def exp_twice(x):
    y = x.exp()
    x.add_(1)
    z = x * x  # saves
    x.add_(1)  # overwrites
    return y + z


library.impl("exp_twice_", exp_twice, "CompositeImplicitAutograd")

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
torch.ops.outplace_cases_inside.exp_twice_(w * 2).sum().backward()
