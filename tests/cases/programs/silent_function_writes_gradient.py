# kind: silent-other, tensor: grad_output
import torch

torch.manual_seed(0)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_output[x < 0] = 0  # overwrites
        return grad_output


w = torch.randn(6, requires_grad=True)
v = torch.randn(6, requires_grad=True)
loss = ((torch.tanh(v) + Clipped.apply(w)) * torch.arange(6.0)).sum()
loss.backward()
print("RESULT", w.grad.norm().item(), v.grad.norm().item())
