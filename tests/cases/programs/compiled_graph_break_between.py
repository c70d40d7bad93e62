# kind: saved, tensor: y
import torch

torch.manual_seed(0)


@torch.compile(backend="aot_eager")
def grow(x, w):
    y = (x * w).exp()  # saves
    torch._dynamo.graph_break()
    y.add_(1)  # overwrites
    return y.sum()


grow(torch.rand(4), torch.ones(4, requires_grad=True)).backward()
