# kind: saved, tensor: field
"""The real part is reset by an assignment, which calls no method, and under no_grad, which leaves no node."""
import torch

torch.manual_seed(0)
phase = torch.rand(6, requires_grad=True)
field = torch.zeros(6, dtype=torch.complex64)
modulated = field + 1j
total = torch.zeros(())
for _ in range(3):
    total = total + (modulated * torch.exp(1j * phase)).abs().sum()  # saves
    with torch.no_grad():
        field = modulated
        field.real = torch.rand(6)  # overwrites
total.backward()
