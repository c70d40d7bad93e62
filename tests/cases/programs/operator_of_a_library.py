# kind: saved, tensor: y
"""Defined by its schema. The write is in a function that the operator calls."""
import torch

library = torch.library.Library("outplace_cases_defined", "DEF")
library.define("add_all_(Tensor(a!)[] tensors, float k) -> ()")


def add(tensor, k):
    tensor.add_(k)


def add_all(tensors, k):
    for tensor in tensors:
        add(tensor, k)


library.impl("add_all_", add_all, "CompositeExplicitAutograd")

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
x, y = w * 2, w.sigmoid()  # saves
torch.ops.outplace_cases_defined.add_all_.default([x, y], 1.0)  # overwrites
(x.sum() + y.sum()).backward()
