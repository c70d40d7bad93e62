# kind: silent-data, tensor: mask
import torch

torch.manual_seed(0)


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


x = torch.randn(8, requires_grad=True)
mask = torch.empty(8).bernoulli_(0.5)
total = 0
for _ in range(3):
    total = total + Masked.apply(x, mask).square().sum()  # saves
    mask.data.bernoulli_(0.5)  # overwrites
total.backward()
print("RESULT", x.grad.norm().item())
