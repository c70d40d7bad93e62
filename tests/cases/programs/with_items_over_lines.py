# kind: saved, tensor: y
import contextlib

import torch


@contextlib.contextmanager
def scaled(tensor, factor):
    yield (
        tensor
        * factor  # a comment
    )


torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
with (
    scaled(w, 2.0) as x,
    contextlib.nullcontext(x.exp()) as y,  # saves
):
    y.mul_(0.5)  # overwrites
y.sum().backward()
