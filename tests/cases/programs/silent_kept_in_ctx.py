# kind: silent-other
import torch

torch.manual_seed(0)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale  # saves
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None


x = torch.randn(4, requires_grad=True)
scale = torch.ones(4)
total = 0
for _ in range(3):
    total = total + Scale.apply(x, scale).sum()
    scale.mul_(2)  # overwrites
total.backward()
print("RESULT", x.grad.norm().item())
