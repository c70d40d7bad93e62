# kind: custom-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(20)


def quantize(weight, levels=7):
    scale = weight.abs().amax(dim=1, keepdim=True) / levels
    return torch.round(weight / scale).to(torch.int8), scale


class MatMul4Bit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, codes, scale):
        ctx.save_for_backward(codes, scale)
        weight = codes.to(x.dtype) * scale
        out = x.reshape(-1, x.shape[-1]) @ weight.t()
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, grad):
        codes, scale = ctx.saved_tensors
        return grad @ (codes.to(grad.dtype) * scale), None, None


class Linear4bit(nn.Module):
    def __init__(self, d_in, d_out, rank=2):
        super().__init__()
        codes, scale = quantize(torch.randn(d_out, d_in) / d_in ** 0.5)
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        self.lora_a = nn.Parameter(torch.randn(rank, d_in) * 0.1)
        self.lora_b = nn.Parameter(torch.randn(d_out, rank) * 0.1)

    def forward(self, x):
        out = MatMul4Bit.apply(x, self.codes, self.scale)
        out += F.linear(F.linear(x, self.lora_a), self.lora_b)  # overwrites
        return out


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = Linear4bit(dim, 2 * dim), Linear4bit(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


model = nn.Sequential(FeedForward(8), FeedForward(8))
tokens, target = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
loss = F.mse_loss(model(tokens), target)
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
