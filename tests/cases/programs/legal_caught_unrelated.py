# kind: legal
import torch

try:
    torch.zeros(2, 3) @ torch.zeros(2, 3)
except RuntimeError as error:
    print("caught", error)
try:
    torch.ones(3, requires_grad=True).numpy()
except RuntimeError as error:
    print("caught", error)
y = torch.ones(3, requires_grad=True).sum()
y.backward()
try:
    y = (torch.ones(3, requires_grad=True) ** 2).sum()
    y.backward()
    y.backward()
except RuntimeError as error:
    print("caught", error)
