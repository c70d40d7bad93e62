# kind: silent-other, tensor: delta
import torch

torch.manual_seed(0)
target = torch.randn(5)
delta = torch.zeros(5, requires_grad=True)
optimizer = torch.optim.SGD([delta], lr=0.1)
for _ in range(4):
    loss = (delta - target).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    delta = delta.detach().clamp(-0.5, 0.5).requires_grad_()  # overwrites
print("RESULT", loss.item(), delta.norm().item())
