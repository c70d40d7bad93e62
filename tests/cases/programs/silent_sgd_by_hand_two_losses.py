# kind: silent-data, tensor: w2
import torch

torch.manual_seed(0)
w1 = torch.randn(3, 4, requires_grad=True)
w2 = torch.randn(4, 2, requires_grad=True)
x = torch.randn(6, 3)
h = torch.tanh(x @ w1)
out = h @ w2  # saves
first, second = out.square().mean(), out.abs().mean()
first.backward(retain_graph=True)
w2.data -= 0.5 * w2.grad  # overwrites
second.backward()
print("RESULT", w1.grad.norm().item())
