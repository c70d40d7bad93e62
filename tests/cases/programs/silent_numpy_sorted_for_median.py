# kind: silent-alias
import torch

torch.manual_seed(0)
x = torch.randn(7, requires_grad=True)
y = torch.tanh(x)  # saves
loss = (y * torch.arange(7.0)).sum()


def median(values):
    values.sort()  # overwrites
    return float(values[len(values) // 2])


print("median", median(y.detach().numpy()))
loss.backward()
print("RESULT", x.grad.norm().item())
