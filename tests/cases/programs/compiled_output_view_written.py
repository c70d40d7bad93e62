# kind: legal
import torch


@torch.compile(backend="aot_eager")
def project(x):
    return x.view(2, 3), (x * 2).sum()


result, _ = project(torch.ones(6, requires_grad=True) * 1)
result += 1
