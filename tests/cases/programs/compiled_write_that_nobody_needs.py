# kind: legal
import torch


@torch.compile(backend="aot_eager")
def grow(x, w):
    y = x * w + 1
    y.add_(1)
    return y.exp()


x, w = torch.rand(4), torch.ones(4, requires_grad=True)
out = grow(x, w)
loss = out.sum()
loss.backward()
x.add_(1)
out.detach().zero_()
