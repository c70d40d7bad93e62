# kind: stepped
import torch

torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(4, 4) * 0.1)
opt = torch.optim.SGD([w], lr=0.1)
h = torch.randn(2, 4)
for _ in range(5_000):
    h = torch.tanh(h @ w)  # saves
h.sum().backward(retain_graph=True)
opt.step()  # overwrites
h.sum().backward()
